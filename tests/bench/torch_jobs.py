#!/usr/bin/python3
"""PyTorch's side of bench_jobs: the same jobs, models and batches, as a careful user would write them.

  torch_jobs.py --job J1 --threads 1 --seconds 3       times the job: one JSON line per measurement
  torch_jobs.py --agree LOSSES.json --weights FILE     repeats the losses that bench_jobs --losses printed

--mode: "eager"; "fused", with PyTorch's fused attention and Adam; or "compiled", the same by torch.compile. --precision:
"highest"; "medium", as set_float32_matmul_precision has it; "bfloat16", by autocast. All but the first of each need
PyTorch 2. J11 and J12 need transformers and peft.
"""
import argparse, json, math, os, resource, struct, sys, time

START = time.time()
parser = argparse.ArgumentParser()
parser.add_argument("--job", default="J1", choices=[*(f"J{i}" for i in range(1, 13)), "charlm"])
parser.add_argument("--mode", default="eager", choices=["eager", "fused", "compiled"])
parser.add_argument("--precision", default="highest", choices=["highest", "medium", "bfloat16"])
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=3)
parser.add_argument("--only", type=int, default=0)
parser.add_argument("--agree")
parser.add_argument("--weights")
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)
os.environ.setdefault("OMP_PROC_BIND", "true")
import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch_models import Attention, LanguageModel, Predictor, Transformer

torch.set_num_threads(args.threads)
torch.manual_seed(0)
if args.mode != "eager" or args.precision != "highest":
    if int(torch.__version__.split(".")[0]) < 2:
        sys.exit(f"torch_jobs.py: PyTorch {torch.__version__} has no such mode")
    if args.precision == "medium":
        torch.set_float32_matmul_precision("medium")
autocast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16")
compiled = lambda f: torch.compile(f) if args.mode == "compiled" else f
fused_adam = dict(fused=True) if args.mode != "eager" else {}
Attention.is_fused = args.mode != "eager"


def tokens(high, *shapes):
    return [torch.randint(0, high, shape) for shape in shapes]


def training_job(job, given, weights, dropout):
    """Returns the model and its step() -> loss; starts from the given tokens and weights, if any."""
    norm, smoothing, lr = 0, 0.0, None
    if job in ("J1", "J2", "J4"):
        sizes = {"J1": (16, 32, 4, 32, 4, 0.2 * dropout, "after"), "J2": (16, 256, 8, 512, 4, 0.2 * dropout, "after"),
                 "J4": (8000, 512, 8, 2048, 6, 0.1 * dropout, "post")}[job]
        model, smoothing = Transformer(*sizes), 0.1 if job == "J4" else 0.0
        batch, src, tgt = (16, 32, 32) if job == "J4" else (64, 9, 4)
        data = tokens(sizes[0], (batch, src), (batch, tgt), (batch, tgt))
        options = dict(lr=1e-4, betas=(0.9, 0.98), eps=1e-9) if job == "J4" else dict(lr=1e-3)
        optimiser = lambda: torch.optim.Adam(model.parameters(), **options, **fused_adam)
    elif job == "J3":
        model, data, norm = Predictor(), tokens(10, (128, 16), (128, 16)), 5
        optimiser = lambda: torch.optim.AdamW(decayed(model, 0.01), lr=5e-4, **fused_adam)
        lr = lambda i: min(1, i / 50) * 2.5e-4 * (1 + math.cos(math.pi * max(0, i - 50) / (20000 - 50)))
    else:
        sizes, shape = {"J5": (dict(dropout=0.2 * dropout), (8, 256)),
                        "J9": (dict(dropout=0.0, vocabulary=50257, d=768, heads=12, layers=12, length=64, bias=True),
                               (4, 64)),
                        "J10": (dict(dropout=0.0, vocabulary=4096, d=256, heads=8, length=128, bias=True), (8, 128)),
                        "charlm": (dict(dropout=0.0, d=128, heads=4, layers=4, length=64), (12, 64))}[job]
        model, vocabulary = LanguageModel(**sizes), sizes.get("vocabulary", 65)
        data, norm = tokens(vocabulary, shape, shape), 1
        optimiser = lambda: torch.optim.AdamW(decayed(model, 0.1), lr=1e-3, betas=(0.9, 0.99), **fused_adam)
    if given:
        data = [torch.tensor(values).view(like.shape) for values, like in zip(given, data)]
    if weights:
        model.load_state_dict(weights)
    opt, steps = optimiser(), 0

    @compiled
    def loss_of(*data):
        with autocast():
            logits = model(*data[:-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), data[-1].flatten(), label_smoothing=smoothing)

    def step():
        nonlocal steps
        steps += 1
        if lr:
            for group in opt.param_groups:
                group["lr"] = lr(steps)
        opt.zero_grad(set_to_none=True)
        loss = loss_of(*data)
        loss.backward()
        if norm:
            nn.utils.clip_grad_norm_(model.parameters(), norm)
        opt.step()
        return loss.item()

    return model, step


def decayed(model, decay):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    return [dict(params=matrices, weight_decay=decay),
            dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]


def peak_rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(step, **extra):
    step()
    first, times = 1e3 * (time.time() - START), []
    for _ in range(2):
        step()
    begin = time.perf_counter()
    while len(times) < 4 or time.perf_counter() - begin < args.seconds:
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    times.sort()
    n = len(times)
    print(json.dumps(dict(job=args.job, impl="torch", threads=args.threads, median_ms=times[n // 2], min_ms=times[0],
                          p90_ms=times[n * 9 // 10], steps=n, first_step_ms=first, peak_rss_mb=peak_rss_mb(),
                          version=torch.__version__, mode_of_torch=args.mode, precision=args.precision,
                          **extra)), flush=True)


def attention_job():
    for length in [args.only] if args.only else (256, 512, 1024, 2048):
        q, k, v = (torch.randn(4, 8, length, 64, requires_grad=True) for _ in range(3))
        ones = torch.ones(4, 8, length, 64)

        @compiled
        def attend():
            with autocast():
                if args.mode != "eager":
                    low = (lambda x: x.bfloat16()) if args.precision == "bfloat16" else (lambda x: x)
                    return F.scaled_dot_product_attention(low(q), low(k), low(v))
                return torch.softmax(q @ k.transpose(-2, -1) / 8, -1) @ v

        def forward():
            with torch.no_grad():
                attend()

        def both():
            q.grad = k.grad = v.grad = None
            y = attend()
            y.backward(ones.to(y.dtype))

        measure(forward, length=length, mode="fwd")
        measure(both, length=length, mode="fwd+bwd")


def decode_job():
    model = Transformer(8000, 512, 8, 2048, 6, 0.1, "post").eval()
    with torch.no_grad():
        for batch in [args.only] if args.only else (1, 32):
            src = torch.randint(0, 8000, (batch, 32))
            def decode():
                with autocast():
                    model.greedy(src, 32)

            measure(decode, batch=batch)


def llama():
    """SmolLM2-135M's shape, as transformers computes it."""
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2048,
                                        rope_theta=100000.0, tie_word_embeddings=True))


def finetuning_job():
    from peft import LoraConfig, get_peft_model
    projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(llama(), LoraConfig(r=8, lora_alpha=16, target_modules=projections, task_type="CAUSAL_LM"))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    data, next_tokens = tokens(49152, (4, 256), (4, 256))
    opt = torch.optim.AdamW(trained, lr=3e-3, weight_decay=0.0, **fused_adam)

    @compiled
    def loss_of(data, next_tokens):
        with autocast():
            logits = model(input_ids=data, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), next_tokens.flatten())

    def step():
        opt.zero_grad(set_to_none=True)
        loss = loss_of(data, next_tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1)
        opt.step()
        return loss.item()

    measure(step)


def writing_job():
    model, (prompt,) = llama().eval(), tokens(49152, (1, 512))
    written = dict(count=128)

    def read(data, cache):
        with torch.no_grad(), autocast():
            out = model(input_ids=data, past_key_values=cache, use_cache=True, logits_to_keep=1)
        written.update(cache=out.past_key_values, token=out.logits[:, -1:].argmax(-1))

    def read_prompt():
        read(prompt, None)
        written["count"] = 0

    def write():
        if written["count"] == 128:
            read_prompt()
        read(written["token"], written["cache"])
        written["count"] += 1

    for length in [args.only] if args.only else (512, 1):
        measure(write if length == 1 else read_prompt, length=length)


def chain_job():
    b, ones = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4)

    def chain():
        b.grad, y = None, b
        for _ in range(1000):
            y = y + b
        y.backward(ones)

    measure(chain)


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    at = lambda entry: content[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
    return {name: torch.from_numpy(numpy.frombuffer(at(entry), numpy.float32).reshape(entry["shape"]).copy())
            for name, entry in header.items()}


def agree():
    """Compares both float32 runs with PyTorch in float64. The first loss must agree up to rounding. Later ones
    drift, PyTorch's own by up to 3e-3: Adam's first steps are lr times the sign of a gradient, so a gradient
    that is zero up to rounding moves its parameter by the whole of lr, in either direction."""
    with open(args.agree) as file:
        theirs = json.load(file)
    weights, losses = read_safetensors(args.weights), {"seppo": theirs["losses"]}
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        _, step = training_job(theirs["job"], theirs["tokens"], weights, dropout=0)
        losses[str(dtype)[-7:]] = [step() for _ in theirs["losses"]]
    gap = lambda name: max(abs(a - b) / b for a, b in zip(losses[name], losses["float64"]))
    print(json.dumps(dict(job=theirs["job"], steps=len(theirs["losses"]), first=losses["float64"][0],
                          last=losses["float64"][-1], gap=gap("seppo"), gap_of_torch=gap("float32"))))
    first = abs(losses["seppo"][0] / losses["float64"][0] - 1)
    sys.exit(0 if first < 1e-6 and gap("seppo") < max(2e-3, 4 * gap("float32")) else 1)


if args.agree:
    agree()
elif args.job == "J6":
    attention_job()
elif args.job == "J7":
    decode_job()
elif args.job == "J8":
    chain_job()
elif args.job == "J11":
    finetuning_job()
elif args.job == "J12":
    writing_job()
else:
    trained, train = training_job(args.job, None, None, dropout=1)
    measure(train, params=sum(p.numel() for p in trained.parameters()))
