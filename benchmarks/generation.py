"""Cached generation beside transformers, litgpt and x-transformers, in one process, taking turns:
python benchmarks/generation.py

SmolLM2-135M in fp32, one row, greedy: a prompt of 128 tokens and 128 new ones, reading the prompt
included. Ours is `generate` with a `DecodeStep`, made beforehand for each number of threads, and
beside it `generate` with the model alone. They, transformers and litgpt compute with the same
weights and must write the same tokens; x-transformers has a model of the same sizes with random
weights. All of them keep a cache. Each prompt is run five times by each in turn. Printed are the
medians and, over the ratios of each turn, the median and the middle half.

Then, ours alone: the time to the first token and of each further one. Two times that it could not
fall below stand beside it: that in which this machine reads the weights once (the best of eight
sums over 500 MB, before and after), and that of torch's products of the same matrices with one
vector, in the same layout and order and with nothing between them. From each follows how many times
our time the others could take at most, if the prompt were still read as fast as now. Last, the
model alone without a cache and with one, which is reported and not raced.

With --check the command fails when a budget is missed. The weights come with `make weights`,
litgpt and x-transformers with `make peers`; without them the others are compared.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers
from torch import Tensor

from attnlib import DecodeStep, LanguageModel, generate, load_pretrained
from attnlib.data import declaration, shakespeare
from attnlib.pretrained.names import llama_names
from attnlib.timing import compare, memory_bandwidth, ratio, seconds_of, this_machine, time_steps
from attnlib.vector_products import Matrices, matrices_of

PEERS = Path(__file__).parents[1] / "build" / "peers"
N_PROMPT = 128
# Times of others over ours, and the share of the bandwidth, by threads.
BUDGETS = {
    1: {"transformers": 1.5},
    2: {"transformers": 2.0, "litgpt": 1.5, "x-transformers": 2.0, "share": 0.55},
}
UNCACHED_RUNS = 3
ESSAY = """\
A bridge of stone stands because every block leans on its neighbours. Remove the keystone and the
arch forgets its shape; leave it, and even a heavy cart only presses the joints closer together. The
engineers of Rome never wrote that argument down as an equation. They built wooden scaffolding, laid
wedges from both banks towards the middle, and trusted the last one. Sixteen centuries later Robert
Hooke hid the explanation in an anagram: as hangs a flexible chain, so, inverted, stand the touching
pieces of an arch. Between those dates lies a question worth asking of any craft, whether it deals
in masonry, music or programs: how much can be known by people who cannot yet say what they know,
and what changes on the day when somebody finds the words? One answer begins with failures, since
"""


def prompts(encode: Callable[[str], list[int]]) -> dict[str, list[int]]:
    """Three texts that do not repeat themselves, cut to as many tokens."""
    macbeth = shakespeare("held-out")
    texts = {
        "declaration": declaration("en"),
        "macbeth": macbeth[macbeth.index("ACT I") :],
        "essay": ESSAY,
    }
    cut = {name: encode(text)[:N_PROMPT] for name, text in texts.items()}
    for name, ids in cut.items():
        if len(ids) != N_PROMPT:
            raise ValueError(f"prompt {name!r} must have {N_PROMPT} tokens, got {len(ids)}")
    return cut


def in_transformers(model: LanguageModel) -> Callable[[list[int], int], list[int]]:
    """The same weights in transformers' Llama, with a DynamicCache and its default attention."""
    sizes = model.sizes
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        intermediate_size=sizes.feed_forward_width,
        num_hidden_layers=sizes.n_layers,
        num_attention_heads=sizes.attention.n_query_heads,
        num_key_value_heads=sizes.attention.n_kv_heads,
        head_dim=sizes.attention.head_dim,
        max_position_embeddings=sizes.context,
        rms_norm_eps=sizes.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.rotary.base},
        tie_word_embeddings=sizes.tied_embeddings,
        bos_token_id=None,
        eos_token_id=None,
    )
    llama = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    for ours, theirs in llama_names(sizes).items():
        llama.get_parameter(theirs).copy_(model.get_parameter(ours))

    def write(prompt: list[int], n_new: int) -> list[int]:
        tokens = torch.tensor([prompt])
        written = llama.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=n_new,
            do_sample=False,
            use_cache=True,
            pad_token_id=0,
        )
        return written[0, len(prompt) :].tolist()

    return write


def in_x_transformers(model: LanguageModel) -> Callable[[list[int], int], Tensor] | None:
    """A model of the same sizes; its query heads share keys in another order, so it only runs."""
    if find_spec("x_transformers") is None:
        return None
    import x_transformers

    sizes = model.sizes
    decoder = x_transformers.Decoder(
        dim=sizes.width,
        depth=sizes.n_layers,
        heads=sizes.attention.n_query_heads,
        attn_kv_heads=sizes.attention.n_kv_heads,
        attn_dim_head=sizes.attention.head_dim,
        attn_flash=True,
        rotary_pos_emb=True,
        use_rmsnorm=True,
        ff_mult=sizes.feed_forward_width / sizes.width,
        ff_glu=True,
        ff_swish=True,
        ff_no_bias=True,
    )
    theirs = x_transformers.TransformerWrapper(
        num_tokens=sizes.vocabulary,
        max_seq_len=sizes.context,
        use_abs_pos_emb=False,
        tie_embedding=True,
        attn_layers=decoder,
    )
    n_theirs = sum(parameter.numel() for parameter in theirs.parameters())
    if abs(n_theirs / sizes.n_parameters - 1) > 0.01:
        raise ValueError(f"both must be as large, got {sizes.n_parameters:,} and {n_theirs:,}")
    writer = x_transformers.AutoregressiveWrapper(theirs).eval().requires_grad_(False)
    return lambda prompt, n_new: writer.generate(
        torch.tensor([prompt]), n_new, temperature=0.0, cache_kv=True
    )


def in_litgpt(model: LanguageModel, n_tokens: int) -> Callable[[list[int], int], list[int]] | None:
    """The same weights in litgpt's GPT, with its cache for so many tokens."""
    if find_spec("litgpt") is None:
        return None
    from litgpt.config import Config
    from litgpt.generate.base import generate as generate_by_litgpt
    from litgpt.model import GPT

    gpt = GPT(Config.from_name("SmolLM2-135M")).eval().requires_grad_(False)
    decoder = model.decoder
    weights = {
        "lm_head.weight": decoder.word_embedding.weight,
        "transformer.wte.weight": decoder.word_embedding.weight,
        "transformer.ln_f.weight": decoder.end_norm.weight,
    }
    for i, block in enumerate(decoder.blocks):
        attention, network = block.attention, block.feed_forward
        qkv = (attention.query.weight, attention.key.weight, attention.value.weight)
        of_block = {
            "norm_1": block.attention_norm.weight,
            "attn.qkv": torch.cat(qkv),
            "attn.proj": attention.output.weight,
            "norm_2": block.feed_forward_norm.weight,
            "mlp.fc_1": network.gate.weight,
            "mlp.fc_2": network.widen.weight,
            "mlp.proj": network.narrow.weight,
        }
        weights |= {f"transformer.h.{i}.{name}.weight": x for name, x in of_block.items()}
    gpt.load_state_dict(weights, strict=False)
    gpt.max_seq_length = n_tokens
    gpt.set_kv_cache(batch_size=1)

    def write(prompt: list[int], n_new: int) -> list[int]:
        with torch.inference_mode():
            return generate_by_litgpt(
                gpt,
                torch.tensor(prompt),
                len(prompt) + n_new,
                temperature=0.0,
                top_p=0.0,
                include_prompt=False,
            ).tolist()

    return write


def seconds_of_products(model: LanguageModel, layout: str) -> float:
    """Of every matrix that a new token needs with one vector, one after the other."""
    weights = [*matrices_of(model.decoder), model.decoder.word_embedding.weight]
    held = Matrices(weights, layout)
    products = [
        partial(held.product([weight], [None]), torch.ones(1, 1, weight.shape[1]))
        for weight in weights
    ]

    def once() -> None:
        for product in products:
            product()

    with torch.inference_mode():
        (timing,) = compare({"products": once}, n_repeats=9, device="cpu").values()
    return timing.median_seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--check", action="store_true", help="fail when a budget is missed")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1], help="of torch")
    parser.add_argument("--new", type=int, default=128, help="new tokens")
    parser.add_argument("--runs", type=int, default=5, help="of each, taking turns")
    options = parser.parse_args()
    missed = []

    def budget(n_threads: int, what: str, value: float, where: str) -> str:
        least = BUDGETS.get(n_threads, {}).get(what)
        if least is None:
            return ""
        if value < least:
            missed.append(f"{what} at {n_threads} threads, {where}: {value:.2f} < {least:g}")
        return f"  ≥ {least:g}"

    try:
        smollm2 = load_pretrained("smollm2-135m")
    except FileNotFoundError as error:
        print(error)
        return 1
    model = smollm2.model.requires_grad_(False)
    n_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    given = prompts(smollm2.encode)

    def write(prompt: list[int], n_new: int, **options: object) -> list[int]:
        return generate(model, [prompt], n_new, progress=False, **options)[0]

    peers = {"the model alone": write, "transformers": in_transformers(model)}
    if PEERS.is_dir():
        sys.path.append(str(PEERS))
    optional = {
        "litgpt": in_litgpt(model, N_PROMPT + options.new),
        "x-transformers": in_x_transformers(model),
    }
    for name, writer in optional.items():
        if writer is None:
            print(f"{name} is not here to be compared with: make peers")
        else:
            peers[name] = writer

    for n_threads in options.threads:
        torch.set_num_threads(n_threads)
        print(f"\n{this_machine('cpu')}", flush=True)
        bandwidth = memory_bandwidth(device="cpu")
        seconds = seconds_of(lambda: DecodeStep(model), "cpu")
        step = DecodeStep(model)
        print(
            f"the step: made in {seconds:.1f} s, {step.nbytes / 1e6:.0f} MB of matrices again, in "
            f"{step.layout}"
        )
        writers = {"attnlib": partial(write, step=step), **peers}
        times_of_peers: dict[str, list[float]] = {name: [] for name in peers}
        for name, prompt in given.items():
            written = writers["attnlib"](prompt, options.new)
            for peer in peers.keys() - {"x-transformers"}:
                if written != writers[peer](prompt, options.new):
                    print(f"{name}: attnlib with a step and {peer} write different tokens")
                    return 1
            calls = {peer: partial(writer, prompt, options.new) for peer, writer in writers.items()}
            timings = compare(calls, n_repeats=options.runs, device="cpu")
            print(f"{name}: {len(set(written))} different tokens among {len(written)} new ones")
            for peer, timing in timings.items():
                rate = options.new / timing.median_seconds
                times = ratio(timing, timings["attnlib"])
                if peer in peers:
                    times_of_peers[peer].append(timing.median_seconds)
                least = budget(n_threads, peer, times.median, name)
                print(f"  {peer:15} {rate:7.1f} tokens/s  {times} of our time{least}", flush=True)

        prompt = next(iter(given.values()))
        steps = time_steps(
            lambda on_step, prompt=prompt, step=step: write(
                prompt, options.new, step=step, on_token=on_step
            ),
            n_repeats=options.runs,
            device="cpu",
        )
        bandwidth = max(bandwidth, memory_bandwidth(device="cpu"))
        further = steps.further.median_seconds
        share = n_bytes / bandwidth / further
        print(f"first token {1e3 * steps.first.median_seconds:.0f} ms, each further one")
        print(f"  {1e3 * further:.1f} ms, {1 / further:.1f} tokens/s; {n_bytes / 1e6:.0f} MB of")
        print(f"  weights at {bandwidth / 1e9:.1f} GB/s allow {bandwidth / n_bytes:.1f} tokens/s;")
        least = budget(n_threads, "share", share, "decoding")
        print(f"  share {share:.2f}{least}")
        products = seconds_of_products(model, step.layout)
        print(f"  torch's products of these matrices alone take {1e3 * products:.1f} ms")
        for peer, seconds in times_of_peers.items():
            first = steps.first.median_seconds
            by_bytes, by_products = (
                max(seconds) / (first + (options.new - 1) * further_at_least)
                for further_at_least in (n_bytes / bandwidth, products)
            )
            most = f"{by_bytes:.2f} times ours; by products {by_products:.2f}"
            print(f"  {peer} could take {most}", flush=True)

        both = {
            "cached": partial(write, prompt, options.new),
            "uncached": partial(write, prompt, options.new, use_cache=False),
        }
        timings = compare(both, n_warm_up=0, n_repeats=UNCACHED_RUNS, device="cpu")
        rate = options.new / timings["uncached"].median_seconds
        times = ratio(timings["uncached"], timings["cached"])
        print("the model alone, without a cache:")
        print(f"  {rate:.2f} tokens/s, {times} of its time with one", flush=True)
    if missed:
        print("\n  ".join(["\nbelow budget:", *missed]))
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
