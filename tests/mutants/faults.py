"""Faults to plant, one at a time, in a copy of the program: tests/mutants/survey.py shows which test finds each.

Each is one small mistake that changes what the program gives: tokens, trees, numbers, records or refusals.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """In `file`, `old`, which stands there once, becomes `new`."""

    file: str
    old: str
    new: str


FAULTS = [
    # core: the decode loop
    Fault("aded/core/decode.py", "self.drafter.observe(step.up_to(kept))", "self.drafter.observe(step)"),
    Fault("aded/core/decode.py", "up_to_depth(self.limit - done - 1)", "up_to_depth(self.limit - done)"),
    Fault("aded/core/decode.py", "        self._drafting = 0.0\n", ""),
    Fault("aded/core/decode.py", "most_nodes, eos_token_ids, seed=request.seed)", "most_nodes, eos_token_ids)"),
    # core: trees, samplers, rejection
    Fault("aded/core/tree.py", "kept[parent] and parent not in ends", "kept[parent] and node not in ends"),
    Fault("aded/core/tree.py", "parents[i] >= i or", "parents[i] > i or"),
    Fault(
        "aded/core/sampler.py",
        "self.draw(logits[node], position + int(depths[node]))",
        "self.draw(logits[node], position)",
    ),
    Fault("aded/core/sampler.py", "ordered.cumsum(0) - ordered >= self.top_p", "ordered.cumsum(0) >= self.top_p"),
    Fault("aded/core/rejection.py", "        if others > 0.0:\n            q /= others\n", ""),
    Fault("aded/core/rejection.py", "left = np.maximum(p - q, 0.0)", "left = np.abs(p - q)"),
    # core: slices, what a step costs
    Fault(
        "aded/core/slices.py",
        "follower.answer.new_tokens < leader.answer",
        "follower.answer.new_tokens <= leader.answer",
    ),
    Fault("aded/core/slices.py", "until = leader.answer.decode_seconds + seconds", "until = seconds"),
    Fault("aded/core/step_cost.py", "sizes, np.maximum.accumulate(seconds)))", "sizes, seconds))"),
    Fault(
        "aded/core/step_cost.py", "self._seconds = self.DECAY * self._seconds + seconds", "self._seconds += seconds"
    ),
    # targets: eager, masks, KV cache
    Fault(
        "aded/targets/eager.py",
        "other._cache = None if self._cache is None else self._cache.larger(self._cache.capacity)",
        "other._cache = self._cache",
    ),
    Fault("aded/targets/eager.py", "        self._tokens += tree.tokens[path].tolist()\n", ""),
    Fault("aded/targets/attention/tree_mask.py", "positions[None, :]) < window", "positions[None, :]) <= window"),
    Fault("aded/targets/attention/kv_cache.py", "path[-1] == len(path) - 1", "path[-1] == len(path)"),
    Fault("aded/targets/attention/rope_switch.py", "switch - 1 - position", "switch - position"),
    # targets: batches, compiled steps, checks, twins
    Fault("aded/targets/batch.py", "own[:, begin : begin + length] = True", "own[:, : begin + length] = True"),
    Fault("aded/targets/batch.py", "- self._prompts[slot] + 1", "- self._prompts[slot]"),
    Fault(
        "aded/targets/compiled_cpu.py",
        "            self._compile()\n            self.self_check()\n",
        "            self.self_check()\n",
    ),
    Fault("aded/targets/cuda_graph.py", "        other._forget_programs()\n", ""),
    Fault("aded/targets/self_check.py", "if not gap < tolerance:", "if gap > tolerance:"),
    Fault(
        "aded/targets/self_check.py",
        "    try:\n        yield\n    finally:\n        config.sliding_window = window\n",
        "    yield\n",
    ),
    Fault("aded/targets/twin.py", "[kinds[number] for number in chosen]", "kinds[: len(chosen)]"),
    # drafters: the tri-gram matrix and its searches
    Fault("aded/drafters/trigram/matrix.py", "if i - start >= matrix.order - 1:", "if i - start >= matrix.order:"),
    Fault("aded/drafters/trigram/matrix.py", "min(weights[at] + gain, max(cap, weights[at]))", "weights[at] + gain"),
    Fault("aded/drafters/trigram/search/mcts.py", "weights[s] / (1.0 + visits[s])", "weights[s] / visits[s]"),
    Fault(
        "aded/drafters/trigram/search/mcts.py",
        "weights[slots:], depth - length",
        "weights[slots:], depth - length - 1",
    ),
    Fault("aded/drafters/trigram/search/best_first.py", "sums[at] = max(1.0, sums[at])", "sums[at] = 1.0"),
    # drafters: back-off
    Fault("aded/drafters/backoff/drafter.py", "            self.experts.unigrams.prompt[:] = 0\n", ""),
    Fault(
        "aded/drafters/backoff/drafter.py",
        'if self.adaptation != "session":\n            other.experts',
        'if self.adaptation == "session":\n            other.experts',
    ),
    Fault("aded/drafters/backoff/contexts/history.py", "length > match[1]", "length >= match[1]"),
    Fault("aded/drafters/backoff/contexts/context_table.py", "            table.tags[slot].updated = now\n", ""),
    Fault(
        "aded/drafters/backoff/experts.py", "expert, count - log_total, count)", "expert, log_total - count, count)"
    ),
    Fault(
        "aded/drafters/backoff/scorer.py",
        "first * row[1, u] + second * row[2, u]",
        "second * row[1, u] + first * row[2, u]",
    ),
    Fault(
        "aded/drafters/backoff/lookup.py", "max(ZERO, h[j + u]) * model.level[j + u]", "h[j + u] * model.level[j + u]"
    ),
    Fault("aded/drafters/backoff/retrieval/passages.py", "            times[found[k]] = 0\n", ""),
    Fault("aded/drafters/backoff/retrieval/passages.py", "df += times[found[k]] == 0", "df += 1"),
    Fault("aded/drafters/backoff/tree_search.py", "min(experts.options.longest[source], known + 1)", "known"),
    Fault("aded/drafters/backoff/learning.py", "node, len(context) - 2", "node, len(context) - 1"),
    # drafters: hybrids, sized trees
    Fault("aded/drafters/hybrid/parts.py", "by.sum(0) == 1", "by.sum(0) >= 1"),
    Fault("aded/drafters/hybrid/drafter.py", "(self.own > 0.0) & merged", "(self.own > 0.0) | merged"),
    Fault("aded/drafters/mixing.py", "if j < 2 and case == 1 - j:", "if j < 2 and case == j:"),
    Fault("aded/drafters/acceptance.py", 'len(decided) - 1, side="right"', 'len(decided), side="right"'),
    Fault("aded/drafters/sized.py", "        if tree.drawn is not None:\n            return tree\n", ""),
    Fault("aded/drafters/sized.py", "self.tree_sizer is not None or self.drafter", "self.drafter"),
    # baselines that read tokens
    Fault(
        "baselines/tokens/prompt_lookup.py",
        "np.minimum(matches_before(context), self.max_ngram)",
        "matches_before(context)",
    ),
    Fault("baselines/tokens/matches.py", "min(lengths[m - high + end], end - low)", "lengths[m - high + end]"),
    Fault("baselines/tokens/rest.py", "min(end, start + self.matches)", "min(end, start + self.ahead)"),
    Fault("baselines/tokens/sam_decoding.py", "if in_text >= in_corpus:", "if in_text > in_corpus:"),
    Fault("baselines/tokens/cacheback.py", "        row.move_to_end(follower)\n", ""),
    Fault("baselines/lru_trie.py", "!= parent or nodes[node, TOKEN]", "!= parent and nodes[node, TOKEN]"),
    # baselines that read logits or hidden states, or draft with a model
    Fault(
        "baselines/logits/token_recycling.py",
        "self.matrix[step.tree.tokens] = step.top_k(RANKS)[0]",
        "self.matrix[step.tree.tokens[step.path]] = step.top_k(RANKS)[0][step.path]",
    ),
    Fault("baselines/logits/lookahead.py", "< self.level - 2:", "< self.level - 1:"),
    Fault("baselines/logits/lookahead.py", "        kept.pop(continuation, None)\n", ""),
    Fault("baselines/logits/successors.py", "np.argmin(table.used", "np.argmax(table.used"),
    Fault("baselines/heads/eagle/drafter.py", "self.length + self._depth", "self.length"),
    Fault("baselines/heads/eagle/tree.py", "reached[parents[-1]] * float", "reached[-1] * float"),
    Fault("baselines/heads/medusa.py", "step.hidden[step.path[-1]]", "step.hidden[-1]"),
    Fault("baselines/draft_models/model_drafter.py", "logits[:, : self.vocabulary].float()", "logits.float()"),
    # baselines: what engines do
    Fault(
        "baselines/engines/llama_cpp_ngram.py",
        "LEAST_ACCEPTED * verified else 0",
        "LEAST_ACCEPTED * verified else self._low",
    ),
    Fault("baselines/engines/llama_cpp_ngram.py", "int(behind[-1])", "int(behind[0])"),
    Fault("baselines/engines/sglang_ngram.py", "(depth - 1 - span) * slope", "(depth - span) * slope"),
    Fault("baselines/engines/trt_suffix_automaton.py", "behind >= found[2]", "behind > found[2]"),
    # configs
    Fault("conf/method/aded_best_first.yaml", "read_prompt: true", "read_prompt: false"),
    # files: datastores
    Fault("aded/files/datastores/ngram_file.py", "if order > self.order:", "if order > self.order + 1:"),
    Fault(
        "aded/files/datastores/ngram_trie.py",
        "counted = distinct if distinct <= LONG else written",
        "counted = written",
    ),
    Fault("aded/files/datastores/suffix_file.py", "corpus.at[0] + last * size", "corpus.at[0] + first * size"),
    Fault("aded/files/datastores/blocks.py", "(last >> BITS) + 1):", "last >> BITS):"),
    Fault("aded/files/datastores/array_file.py", "if filled != len(body):", "if filled > len(body):"),
    # files: packs, cost tables, outputs, texts, ids
    Fault("aded/files/pack.py", "compressed.read(about.answers_bytes + 1)", "compressed.read(about.answers_bytes)"),
    Fault("aded/files/pack.py", " or (turn.turn and turn.question_id != last)", ""),
    Fault("aded/files/cost_table.py", "axis=1), axis=0)", "axis=1), axis=1)"),
    Fault("aded/files/atomic.py", "        taken.append((key, path))\n", ""),
    Fault("aded/files/models/tokenizer.py", "min((at for string", "max((at for string"),
    Fault("aded/identity.py", '"logger", "progress", "record"}', '"logger", "progress"}'),
    # datastores: counting, cleaning, merging
    Fault("datastore/counting/growing_trie.py", "np.flatnonzero(times >= MANY)", "np.flatnonzero(times > MANY)"),
    Fault(
        "datastore/counting/part.py", "part.times[old[at - 1]] < part.times", "part.times[old[at - 1]] <= part.times"
    ),
    Fault("datastore/counting/windows.py", "chunks(CHUNK, order - 1)", "chunks(CHUNK, order - 2)"),
    Fault("datastore/cleaning/overlap.py", "if length >= SHORTEST:", "if length > SHORTEST:"),
    Fault("datastore/cleaning/cleaning.py", "any(map(is_degenerate, messages))", "all(map(is_degenerate, messages))"),
    Fault("datastore/merge.py", '("documents", "tokens", "skipped")', '("documents", "tokens")'),
    # records: the numbers of a summary, intervals, noise, marks
    Fault("aded/records/metrics.py", "np.repeat(steps / np.maximum(tokens, 1), tokens)", "np.repeat(steps, tokens)"),
    Fault("aded/records/metrics.py", "student_95(count - 1)", "student_95(count)"),
    Fault(
        "aded/records/metrics.py", "sum(len(row.token_ids) for row in timed)", "sum(row.new_tokens for row in timed)"
    ),
    Fault("aded/records/totals.py", "[2.5, 97.5]", "[5, 95]"),
    Fault("aded/records/totals.py", "    every_slice = every_slice or not undisturbed(pairs).any()\n", ""),
    Fault(
        "aded/records/paired.py",
        "drawn[np.isfinite(drawn)] >= drawn[0] - 1e-12",
        "drawn[np.isfinite(drawn)] > drawn[0]",
    ),
    Fault("aded/records/marks.py", "if 2 * kept.sum() < FEWEST:", "if kept.sum() < FEWEST:"),
    Fault(
        "aded/records/noise/disturbance.py",
        "np.maximum(np.array(slices.others, float), np.array(slices.steal, float)) > MOST_TAKEN",
        "np.array(slices.others, float) > MOST_TAKEN",
    ),
    Fault("aded/records/noise/warm_up.py", "disturbed, strict=True))[1:]:", "disturbed, strict=True)):"),
    # records: rows, folders
    Fault("aded/records/rows.py", "\n        and len({len(column) for column in columns}) == 1", ""),
    Fault("aded/records/run_directory.py", '            "engine": str(one.engine),\n', ""),
    Fault("aded/records/finished_runs.py", "        seen.add((row.question_id, row.turn))\n", ""),
    Fault("aded/records/finished_runs.py", 'return ("cold",) if setting == "prompt" else ', "return "),
    # bench: a run, its clock, going on, recorded answers
    Fault(
        "aded/bench/runner.py", "baseline_first=number % 2 == 1, trees=trees)", "baseline_first=False, trees=trees)"
    ),
    Fault(
        "aded/bench/runner.py",
        "slices[baseline_first::2], slices[not baseline_first :: 2]",
        "slices[::2], slices[1::2]",
    ),
    Fault("aded/bench/runner.py", "max_new_tokens=tokens)\n    drafter.reset()\n", "max_new_tokens=tokens)\n"),
    Fault(
        "aded/bench/answering.py", "runner.answer(questions[done:], start=done)", "runner.answer(questions[done:])"
    ),
    Fault("aded/bench/recording.py", "        drafter.draft(context[:at])\n", ""),
    Fault(
        "aded/bench/clock/watch.py",
        "_share(now.busy - before.busy - ours, whole)",
        "_share(now.busy - before.busy, whole)",
    ),
    Fault(
        "aded/bench/build.py", "if self._loaded is None or settings != self._settings:", "if self._loaded is None:"
    ),
    # config: objects, command lines, choices
    Fault(
        "aded/config/objects.py",
        'if not inspect.isclass(found) and "return" not in getattr(found, "__annotations__", {}):',
        "if not callable(found):",
    ),
    Fault("aded/config/command_line.py", '_is_text(kinds[key]) and value != "null"', "_is_text(kinds[key])"),
    Fault(
        "aded/config/command_line.py", '"model.answers" and not benchmark and is_pack', '"model.answers" and is_pack'
    ),
    Fault("aded/config/choices.py", "merged(below[key], above[key])", "merged(above[key], below[key])"),
    # the Python API
    Fault("aded/api/generate.py", "if len(ids) >= (most", "if len(ids) > (most"),
    Fault("aded/api/custom_generate.py", "- input_ids.shape[1], 1)", "- len(prompt), 1)"),
    Fault(
        "aded/api/replay.py",
        'limited(every, checked(limit, Positive | None, "limit"))',
        'every[: checked(limit, Positive | None, "limit")]',
    ),
    Fault("aded/api/text.py", "for n in range(1, min(", "for n in range(2, min("),
    Fault("aded/api/shared.py", "        if known is not None:\n            self.reset()\n", ""),
    Fault("aded/api/drafter.py", "    copied.reset()\n", ""),
    # reports: lines, columns, plots, the paper
    Fault("scripts/report/lines.py", "-(speedup.value if speedup else 0.0)", "(speedup.value if speedup else 0.0)"),
    Fault(
        "scripts/report/columns.py",
        "line.number(ACCEPTED) if scope in line.first.columns else None",
        "line.number(ACCEPTED)",
    ),
    Fault("scripts/report/batching.py", "(above - 1.0) / (above - below)", "(1.0 - below) / (above - below)"),
    Fault(
        "scripts/report/plots/acceptance.py",
        "1 + np.cumsum([0, *row.accept_lengths[:-1]])",
        "np.cumsum(row.accept_lengths)",
    ),
    Fault(
        "scripts/report/plots/style.py",
        "[[max(0.0, value) for value in below], [max(0.0, value) for value in above]]",
        "[[max(0.0, value) for value in above], [max(0.0, value) for value in below]]",
    ),
    Fault("scripts/report/paper/comparison.py", "{ours.value / value:.2f}", "{value / ours.value:.2f}"),
    Fault("scripts/report/tables/parts.py", "accepted = whole - 1", "accepted = whole"),
    # scores of HumanEval, FastChat's judge
    Fault("human_eval/score.py", "if task in completions:", "if completions.get(task) == sample.completion:"),
    Fault("human_eval/confine.py", 'for folder in (*hidden, "/proc"):', 'for folder in ("/proc",):'),
    Fault("llm_judge/export.py", "cut_at(text, stop_strings).strip()", "text.strip()"),
    Fault("llm_judge/export.py", "return row.prefill_seconds + row.decode_seconds", "return row.decode_seconds"),
]
