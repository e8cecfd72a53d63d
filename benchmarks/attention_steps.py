"""Attention's own step for one new token, in seven forms and beside its peers, in one process:
python benchmarks/attention_steps.py

Layers of one width in fp32, one row, with a cache of so many tokens: multi-head attention, four
and one key/value heads, and multi-head latent attention in four forms: with keys and values that
are kept expanded; with a latent that is kept and expanded anew for every token, as transformers
does; absorbed; and absorbed with the matrices laid out as a `DecodeStep` has them. Each step
projects, appends to the cache, attends and projects back; a cache is filled beforehand, and what a
step appended is taken back. All of them and transformers' DeepseekV2Attention, which has the
weights of ours, take turns. The latent of the queries is a quarter as wide as the layer; in
DeepSeek-V2 it is 0.3 of it, in V3 0.21.

Then the kernels alone, which take turns among themselves: four key/value heads read by sixteen
query heads with `grouped_query_attention`, with torch's `enable_gqa`, and with keys and values
repeated for every query head. They are short, so that ten of them are timed together, and the tenth
part of that is shown; what one has read is then at hand for the next, for all three alike.

Printed are medians for every context, and for the context of the budgets, over the ratios of each
turn, the median and the middle half. There transformers' layer is timed once more beside the
absorbed one, as it stands and laid out: one step of each in turn, so that each finds its weights
driven out of the processor's caches by the others; and 32 steps of each in a row, as a layer that
decodes alone takes them. The budgets are for those in a row of the laid-out layer, and for the
kernels. With --latents 512 256 all is done once more with a latent of half the width, to which no
budget applies. With --check the command fails when a budget is missed, or when two that must agree
do not. With --save the times are written to a folder, a file for each number of threads and each
latent.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import DeepseekV2Config, DynamicCache
from transformers.models.deepseek_v2.modeling_deepseek_v2 import (
    DeepseekV2Attention,
    DeepseekV2RotaryEmbedding,
)

from attnlib import (
    AttentionSizes,
    KVCache,
    LatentAttentionSizes,
    LatentCache,
    LatentSelfAttention,
    MultiHeadAttention,
    grouped_query_attention,
)
from attnlib.caches import LayerCache
from attnlib.fast_decoding import attention_step, rotation_at
from attnlib.latent import expanded_keys_and_values
from attnlib.sizes import RotarySizes
from attnlib.timing import (
    Measurement,
    Timing,
    compare,
    measure_sizes,
    memory_bandwidth,
    peak_flops,
    ratio,
    save_timings,
)
from attnlib.vector_products import Matrices, faster_layout, matrices_of

WIDTH, BASE, EPSILON = 2048, 10_000.0, 1e-6
N_HEADS, HEAD_WIDTH, ROPE_WIDTH, QUERY_LATENT = 16, 128, 64, 512
SHARED = {
    "MHA": 16,
    "GQA": 4,
    "MQA": 1,
}
CONTEXTS = (512, 1024, 2048, 4096, 8192)
BUDGET_CONTEXT, BUDGET_LATENT = 2048, 512
ABSORBED, THEIRS = "MLA absorbed", "transformers' DeepseekV2Attention"
LAID_OUT = "MLA absorbed, laid out"
KERNEL, ENABLED, REPEATED = "GQA alone", "torch's enable_gqa", "repeated heads"
# Times of the first over those of the second, at least.
BUDGETS = {(THEIRS, LAID_OUT): 15.0, (ENABLED, KERNEL): 1.4, (REPEATED, KERNEL): 3.0}
MOST_APART = 1e-5
KERNELS_A_RUN, STEPS_A_RUN = 10, 32

Calls = dict[str, Callable[[], Tensor]]


def heads(n_kv_heads: int) -> AttentionSizes:
    """As wide as a head of the latent without its rotary part."""
    return AttentionSizes(
        n_query_heads=N_HEADS, n_kv_heads=n_kv_heads, head_dim=HEAD_WIDTH, value_dim=HEAD_WIDTH
    )


def latent(width: int) -> LatentAttentionSizes:
    return LatentAttentionSizes(
        n_query_heads=N_HEADS,
        query_latent=QUERY_LATENT,
        kv_latent=width,
        nope_dim=HEAD_WIDTH,
        rope_dim=ROPE_WIDTH,
        value_dim=HEAD_WIDTH,
    )


class Layers:
    """The layers, made once, and what they do with a cache of some tokens."""

    def __init__(self, sizes: LatentAttentionSizes) -> None:
        torch.manual_seed(0)
        self.sizes = sizes
        turned = {"rotary": RotarySizes(base=BASE), "pairing": "interleaved"}
        self.shared = {
            name: MultiHeadAttention(WIDTH, heads(g), **turned) for name, g in SHARED.items()
        }
        self.latent = LatentSelfAttention(WIDTH, sizes, norm_epsilon=EPSILON, **turned)
        self.theirs, self.rotary = in_transformers(self.latent)
        self.x_11m = torch.randn(1, 1, WIDTH)

    def calls(self, n_tokens: int) -> Calls:
        """One step each, whose new token is the last of so many."""
        before = n_tokens - 1
        latents = torch.randn(1, before, self.sizes.kv_latent)
        rotary_keys = torch.randn(1, before, ROPE_WIDTH)
        calls: Calls = {}
        for name, layer in self.shared.items():
            g, d = SHARED[name], HEAD_WIDTH
            cache = KVCache(capacity=n_tokens)
            cache.append(torch.randn(1, g, before, d), torch.randn(1, g, before, d))
            calls[name] = self.taken_back(cache, partial(layer, self.x_11m, cache=cache))
        expanded = KVCache(capacity=n_tokens)
        ups = self.latent.ups(torch.float32)
        expanded.append(*expanded_keys_and_values(latents, rotary_keys, *ups))
        calls["MLA expanded"] = self.taken_back(expanded, partial(self.expanded_step, expanded))
        steps = {
            "MLA re-expanded": partial(self.latent, self.x_11m, form="expanded"),
            ABSORBED: partial(self.latent, self.x_11m, form="absorbed"),
            LAID_OUT: self.laid_out(),
        }
        for name, step in steps.items():
            cache = LatentCache(capacity=n_tokens)
            cache.append(latents, rotary_keys)
            calls[name] = self.taken_back(cache, partial(step, cache=cache))
        other = DynamicCache()
        other.update(latents[:, None], rotary_keys[:, None], 0)
        calls[THEIRS] = partial(self.their_step, other, before)
        return calls

    def laid_out(self) -> Callable[[LatentCache], Tensor]:
        """The absorbed layer as a `DecodeStep` has it, in the layout for torch's threads now."""
        layer = self.latent
        held = Matrices(matrices_of(layer), faster_layout(layer.output.weight))
        step = attention_step(layer, held)

        def call(cache: LatentCache) -> Tensor:
            turned = rotation_at(layer, torch.tensor([cache.n_tokens]))
            return step(self.x_11m, cache, turned, None)

        return call

    def taken_back(self, cache: LayerCache, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        n_tokens = cache.n_tokens

        def call() -> Tensor:
            out = step()
            cache.truncate(n_tokens)
            return out

        return call

    def expanded_step(self, cache: KVCache) -> Tensor:
        """The latent layer with a cache of the keys and values that are made of its latents."""
        layer, positions = self.latent, torch.tensor([cache.n_tokens])
        q_bhtd = layer.queries(self.x_11m, positions)
        kept = layer.latents(self.x_11m, positions)
        new = expanded_keys_and_values(*kept, *layer.ups(q_bhtd.dtype))
        out_bhte = grouped_query_attention(q_bhtd, *cache.append(*new), scale=layer.score_scale)
        return layer.output(out_bhte.transpose(1, 2).flatten(2))

    def their_step(self, cache: DynamicCache, before: int) -> Tensor:
        turned = self.rotary(self.x_11m, torch.tensor([[before]]))
        out = self.theirs(self.x_11m, position_embeddings=turned, cache=cache)[0]
        cache.crop(-1)
        return out


def in_transformers(
    layer: LatentSelfAttention,
) -> tuple[DeepseekV2Attention, DeepseekV2RotaryEmbedding]:
    """The same weights in transformers' layer, with torch's own kernel of attention."""
    sizes = layer.sizes
    config = DeepseekV2Config(
        hidden_size=WIDTH,
        num_attention_heads=sizes.n_query_heads,
        q_lora_rank=sizes.query_latent,
        kv_lora_rank=sizes.kv_latent,
        qk_nope_head_dim=sizes.nope_dim,
        qk_rope_head_dim=sizes.rope_dim,
        v_head_dim=sizes.value_dim,
        rope_parameters={"rope_type": "default", "rope_theta": BASE},
        attn_implementation="sdpa",
    )
    theirs = DeepseekV2Attention(config, layer_idx=0).eval()
    up = torch.cat(layer.ups(torch.float32), dim=1).flatten(0, 1)
    theirs.load_state_dict(
        {
            "q_a_proj.weight": layer.query_down.weight,
            "q_a_layernorm.weight": layer.query_norm.weight,
            "q_b_proj.weight": layer.query_up.weight,
            "kv_a_proj_with_mqa.weight": torch.cat([layer.kv_down.weight, layer.rotary_key.weight]),
            "kv_a_layernorm.weight": layer.kv_norm.weight,
            "kv_b_proj.weight": up,
            "o_proj.weight": layer.output.weight,
        }
    )
    return theirs, DeepseekV2RotaryEmbedding(config)


def kernels(n_tokens: int) -> Calls:
    """One target of 16 query heads that read 4 key/value heads, in three ways."""
    g, d = SHARED["GQA"], HEAD_WIDTH
    p = N_HEADS // g
    q = torch.randn(1, N_HEADS, 1, d)
    k, v = torch.randn(1, g, n_tokens, d), torch.randn(1, g, n_tokens, d)

    def ours(k: Tensor, v: Tensor) -> Tensor:
        return grouped_query_attention(q, k, v)

    def enabled(k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, enable_gqa=True)

    def repeated(k: Tensor, v: Tensor) -> Tensor:
        every = k.repeat_interleave(p, dim=1), v.repeat_interleave(p, dim=1)
        return scaled_dot_product_attention(q, *every)

    # what one has read would be at hand for the next
    named = {KERNEL: ours, ENABLED: enabled, REPEATED: repeated}
    return {name: partial(kernel, k.clone(), v.clone()) for name, kernel in named.items()}


def disagreements(calls: Calls) -> list[str]:
    """One sentence for each pair that must agree and does not."""
    outs = {name: call() for name, call in calls.items()}
    pairs = [(name, ABSORBED) for name in ("MLA expanded", "MLA re-expanded", LAID_OUT, THEIRS)]
    pairs += [(ENABLED, KERNEL), (REPEATED, KERNEL)]
    apart = {
        pair: ((outs[pair[0]] - outs[pair[1]]).norm() / outs[pair[1]].norm()).item()
        for pair in pairs
    }
    return [
        f"{one} and {other} are {far:.1e} apart, which is not within {MOST_APART:.0e}"
        for (one, other), far in apart.items()
        if not far <= MOST_APART
    ]


def measured(layers: Layers, contexts: tuple[int, ...], n_repeats: int) -> Measurement:
    words = {
        "title": "one step of an attention layer with a cache",
        "x_title": "tokens that are read",
        "settings": {
            "dtype": "float32",
            "rows": 1,
            "width": WIDTH,
            **layers.sizes.letters,
            **{f"g of {name}": g for name, g in SHARED.items()},
            "n_repeats": n_repeats,
            "kernels_a_run": KERNELS_A_RUN,
            "bytes_a_second": round(memory_bandwidth(device="cpu")),
            "flops_a_second": round(peak_flops(device="cpu")),
        },
        "n_warm_up": 2,
        "n_repeats": n_repeats,
        "device": "cpu",
    }
    steps = measure_sizes(layers.calls, contexts, **words)
    runs = measure_sizes(
        lambda n: {
            name: partial(run, kernel, KERNELS_A_RUN) for name, kernel in kernels(n).items()
        },
        contexts,
        **words,
    )
    alone = {name: tuple(map(one_of_a_run, curve)) for name, curve in runs.timings.items()}
    return replace(steps, timings=steps.timings | alone)


def run(call: Callable[[], Tensor], times: int) -> None:
    for _ in range(times):
        call()


def one_of_a_run(timing: Timing) -> Timing:
    return Timing(tuple(seconds / KERNELS_A_RUN for seconds in timing.seconds))


def show(found: Measurement) -> None:
    print(f"{'milliseconds':34}" + "".join(f"{n:9,}" for n in found.sizes))
    for name in found.timings:
        medians = (f"{1e3 * seconds:9.2f}" for seconds in found.medians_seconds(name))
        print(f"{name:34}" + "".join(medians))


def beside_theirs(layers: Layers, n_repeats: int) -> tuple[dict[str, Timing], dict[str, Timing]]:
    """The layers of the budget: one step of each in turn, and 32 in a row of each in turn."""
    calls = layers.calls(BUDGET_CONTEXT)
    calls = {name: calls[name] for name in (THEIRS, ABSORBED, LAID_OUT)}
    runs = {name: partial(run, call, STEPS_A_RUN) for name, call in calls.items()}
    single = compare(calls, n_warm_up=2, n_repeats=n_repeats, device="cpu")
    return single, compare(runs, n_warm_up=1, n_repeats=n_repeats, device="cpu")


def below_budget(layers: Layers, found: Measurement, n_repeats: int) -> list[str]:
    """Print the ratios of the budgets and give a sentence for each that is missed."""
    at, missed = found.sizes.index(BUDGET_CONTEXT), []
    single, runs = beside_theirs(layers, n_repeats)
    print(f"of {BUDGET_CONTEXT:,} tokens, one step of each in turn:")
    for ours in (ABSORBED, LAID_OUT):
        print(f"  {THEIRS}: {ratio(single[THEIRS], single[ours])} of the time of {ours}")
    print(f"{STEPS_A_RUN} steps in a row of each:")
    print(f"  {THEIRS}: {ratio(runs[THEIRS], runs[ABSORBED])} of the time of {ABSORBED}")
    timings = runs | {name: found.timings[name][at] for name in (KERNEL, ENABLED, REPEATED)}
    for (over, under), least in BUDGETS.items():
        times = ratio(timings[over], timings[under])
        print(f"  {over}: {times} of the time of {under}  ≥ {least:g}")
        if times.median < least:
            missed.append(
                f"{over} over {under} at {torch.get_num_threads()} threads: "
                f"{times.median:.2f} < {least:g}"
            )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--check", action="store_true", help="fail when a budget is missed")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1], help="of torch")
    parser.add_argument("--latents", type=int, nargs="+", default=[512], help="widths c")
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS, help="tokens read")
    parser.add_argument("--runs", type=int, default=5, help="of each, taking turns")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write the times there")
    options = parser.parse_args()
    contexts, missed = tuple(sorted(options.contexts)), []
    with torch.inference_mode():
        all_layers = [Layers(latent(width)) for width in options.latents]
        wrong = [
            line
            for layers in all_layers
            for line in disagreements(layers.calls(contexts[0]) | kernels(contexts[0]))
        ]
        print("\n".join(wrong))
        for n_threads in options.threads:
            torch.set_num_threads(n_threads)
            for layers in all_layers:
                width = layers.sizes.kv_latent
                found = measured(layers, contexts, options.runs)
                print(f"latent of {width}; {found.machine}")
                show(found)
                if BUDGET_CONTEXT in contexts and width == BUDGET_LATENT:
                    missed += below_budget(layers, found, options.runs)
                if options.save is not None:
                    options.save.mkdir(parents=True, exist_ok=True)
                    path = options.save / f"attention-steps-cpu-{n_threads}-{width}.json"
                    save_timings(path, found)
                    print(f"wrote {path}")
                print(flush=True)
    if missed:
        print("\n  ".join(["\nbelow budget:", *missed]))
    return 1 if wrong or (options.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
