#!/usr/bin/env bash
# Everything that needs a GPU but no weights: the tests, t(n) beside the copy bandwidth, and trace runs.
#
#   scripts/bench_gpu.sh ANSWERS.jsonl QUESTIONS.jsonl TOKENIZER DATASTORE.ngrams,DATASTORE.suffixes
#
# ANSWERS: recorded answers of a Vicuna to the MT-Bench QUESTIONS; DATASTORE: files of `aded build` for TOKENIZER.
# Writes results/gpu/CARD/: verify-SHAPE.json, and the tables of the runs, whose records lie in outputs/gpu/CARD.
# To try it without a GPU: SHAPES=smollm2-135m DEVICE=cpu QUESTIONS_EACH=1 SIZES=1,2,4 ROUNDS=1 TOKENS=32 scripts/bench_gpu.sh ...
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 4 ] || { sed -n '4p' "$0"; exit 2; }
answers=$(realpath "$1") questions=$(realpath "$2") tokenizer=$3 datastore=$4
shapes=${SHAPES:-vicuna-7b vicuna-13b vicuna-33b} device=${DEVICE:-cuda}
methods=${METHODS:-prompt_lookup,rest,aded,aded_backoff}
python=${PYTHON:-python}
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1}
card=$($python -c 'import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")' | tr ' /' '--')
out=${OUT:-results/gpu}/$card runs=outputs/gpu/$card
mkdir -p "$out"

if [ "$device" = cuda ]; then
    $python -m pytest -q -m gpu tests/aded/targets
    TEST_DEVICE=cuda $python -m pytest -q -n 8 tests/baselines/test_conformance.py
fi
for shape in $shapes; do
    echo "== $shape: t(n)"
    $python -m scripts.bench.verify shape="$shape" model.device="$device" engines=[compiled] contexts=[256,1024] \
        nodes="[${SIZES:-1,2,4,8,16,32,64,128}]" rounds="${ROUNDS:-5}" out="$runs/verify-$shape.json" | sed '$d'
    echo "== $shape: methods, their trees sized by measured step times and as published"
    $python -m aded sweep table1_recorded engine=compiled model=recorded model.compute="$shape" model.device="$device" \
        model.answers="$answers" model.tokenizer="$tokenizer" benchmark=mt_bench benchmark.question_file="$questions" \
        benchmark.limit="${QUESTIONS_EACH:-8}" benchmark.max_new_tokens="${TOKENS:-256}" \
        method="$methods" method.cost=measured,none datastore.path="$datastore" progress=false paths.output="$runs"
done
cp "$runs"/{summary.md,summary.csv,verify-*.json} "$out"
$python -m scripts.bench.gpu_summary "$out"
