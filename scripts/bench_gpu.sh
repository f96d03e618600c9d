#!/usr/bin/env bash
# Everything that needs a GPU, in under ten minutes: the marked tests, t(n) beside the copy bandwidth, and trace runs.
#
#   scripts/bench_gpu.sh ANSWERS.jsonl QUESTIONS.jsonl TOKENIZER DATASTORE.ngrams
#
# ANSWERS: recorded answers of a Vicuna to the MT-Bench QUESTIONS; DATASTORE: n-grams of order 5 for TOKENIZER.
# Writes results/gpu/CARD/: verify-SHAPE.json, the runs' records, and summary.json with all of them.
# To try it without a GPU: SHAPES=smollm2-135m DEVICE=cpu QUESTIONS_EACH=1 SIZES=1,2,4 ROUNDS=1 TOKENS=32 scripts/bench_gpu.sh ...
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 4 ] || { sed -n '4p' "$0"; exit 2; }
answers=$(realpath "$1") questions=$(realpath "$2") tokenizer=$3 datastore=$(realpath "$4")
shapes=${SHAPES:-vicuna-7b vicuna-13b vicuna-33b} device=${DEVICE:-cuda}
python=${PYTHON:-python}
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1}
card=$($python -c 'import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")')
out=${OUT:-results/gpu/$(echo "$card" | tr ' /' '--')}
mkdir -p "$out"

if [ "$device" = cuda ]; then
    $python -m pytest -q -m gpu
fi
for shape in $shapes; do
    echo "== $shape: t(n)"
    $python -m scripts.bench.verify shape="$shape" model.device="$device" engines=[compiled] contexts=[256,1024] \
        nodes="[${SIZES:-1,2,4,8,16,32,64,128}]" rounds="${ROUNDS:-5}" out="$out/verify-$shape.json" | sed '$d'
    for method in aded aded_backoff; do
        echo "== $shape: $method"
        $python -m aded run engine=compiled model=recorded model.compute="$shape" model.device="$device" \
            model.answers="$answers" model.tokenizer="$tokenizer" benchmark=mt_bench \
            benchmark.question_file="$questions" benchmark.limit="${QUESTIONS_EACH:-8}" \
            benchmark.max_new_tokens="${TOKENS:-256}" method="$method" datastore.path="$datastore" progress=false \
            output_dir="$out/$shape-$method"
    done
done
$python -m scripts.bench.gpu_summary "$out"
