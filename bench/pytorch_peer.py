#!/usr/bin/env python3
"""The models of compare_pytorch.py in PyTorch: a process that trains on request.

Started by compare_pytorch.py inside of the virtual environment that has
PyTorch; reads one JSON object a line from standard input and answers each with
one on standard output:

  {"do": "open", "info": ..., ...}   makes the model, its data and optimizer
  {"do": "initial", "path": F}       writes its first weights as safetensors
  {"do": "losses", "steps": N}       trains from the first weights: N losses
  {"do": "time", "steps": N}         trains on: seconds of each of N steps
  {"do": "memory"}                   the largest memory that the process had, or took of the GPU
  {"do": "product", "sizes": [M, N, K], "runs": R}   seconds of a product in bf16
  {"do": "attention", "runs": R}     of the model's in a training step, in bf16
  {"do": "attention_backward", "runs": R}            of its derivative
  {"do": "decode", "steps": N}       of a token of one text that follows N others

What is trained, and how, is read from `./m info --json`: nothing of a recipe is
written down twice.
"""

import json
import math
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal self-attention with one projection for q, k and v."""

    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.resid = nn.Dropout(drop)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                    dropout_p=self.drop if self.training else 0.0)
        return self.resid(self.c_proj(y.transpose(1, 2).reshape(batch, length, width)))


    def decode(self, x, position, keys, values):
        """Of one token [1, width], whose key and value are put beside those before it."""
        q, k, v = (part.view(self.heads, 1, -1) for part in self.c_attn(x).split(x.shape[1], dim=1))
        keys.index_copy_(1, position, k)
        values.index_copy_(1, position, v)
        seen = torch.arange(keys.shape[1], device=x.device) <= position
        y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None])
        return self.c_proj(y.reshape(1, -1))


class MLP(nn.Module):
    """Two layers with the tanh form of GELU between them."""

    def __init__(self, width, drop):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """A pre-norm layer."""

    def __init__(self, width, heads, drop):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, drop)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width, drop)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """models/addition.tfm (a head of its own) and models/gpt2.tfm (tied)."""

    def __init__(self, vocab, context, width, heads, layers, drop, tied):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.drop = nn.Dropout(drop)
        self.h = nn.ModuleList(Block(width, heads, drop) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    @torch.no_grad()
    def initialise(self):
        """As GPT-2: normal(0.02), what writes to the residual stream scaled.
        Always the same f32 numbers, whatever type the parameters have."""
        torch.manual_seed(1)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif ".ln_" in name or name.startswith("ln_"):
                parameter.fill_(1.0)
            else:
                scale = math.sqrt(2 * len(self.h)) if name.endswith("c_proj.weight") else 1.0
                parameter.copy_(torch.empty(parameter.shape).normal_(std=0.02 / scale))

    def forward(self, tokens, targets, ignore: int):
        """The mean loss over the targets that are not `ignore`."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        x = self.drop(x)
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ignore)

    def decode(self, token, position, caches):
        """The likeliest token after this one, [1]; both sides keep keys and values of all before."""
        x = self.wte(token) + self.wpe(position)
        for block, (keys, values) in zip(self.h, caches):
            x = x + block.attn.decode(block.ln_1(x), position, keys, values)
            x = x + block.mlp(block.ln_2(x))
        return self.head(self.ln_f(x)).argmax(dim=1)

    @staticmethod
    def is_transposed(name):
        """Whether the .tfm file stores this weight as [inputs, outputs]."""
        return name.startswith("h.") and name.endswith(".weight") and ".c_" in name


class LabNorm(nn.Module):
    """Layer norm under Keras' names."""

    def __init__(self, width):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return functional.layer_norm(x, self.gamma.shape, self.gamma, self.beta, 1e-6)


class LabAttention(nn.Module):
    """Causal self-attention with a projection for each of q, k, v and the output."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (project(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for project in (self.q, self.k, self.v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class LabBlock(nn.Module):
    """A post-norm layer with ReLU."""

    def __init__(self, width, heads, hidden, drop):
        super().__init__()
        self.attention = LabAttention(width, heads)
        self.norm_attention = LabNorm(width)
        self.mlp = nn.ModuleDict({"hidden": nn.Linear(width, hidden), "output": nn.Linear(hidden, width)})
        self.norm_mlp = LabNorm(width)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = self.norm_attention(self.drop(self.attention(x)) + x)
        return self.norm_mlp(self.drop(self.mlp["output"](functional.relu(self.mlp["hidden"](x)))) + x)


class Lab(nn.Module):
    """models/lab_train.tfm: scaled embeddings and sinusoids, a biased head of its own."""

    def __init__(self, vocab, context, width, heads, layers, hidden, drop):
        super().__init__()
        self.embedding = nn.ModuleDict({"token": nn.Embedding(vocab, width)})
        self.blocks = nn.ModuleList(LabBlock(width, heads, hidden, drop) for _ in range(layers))
        self.output = nn.Linear(width, vocab)
        angles = torch.arange(context, dtype=torch.float64)[:, None] / \
            10000 ** (torch.arange(width // 2, dtype=torch.float64) / (width // 2))
        # A constant of the model: rounded to f32, whatever type computes with it.
        self.register_buffer("positional", torch.cat([angles.sin(), angles.cos()], 1).float())

    @torch.no_grad()
    def initialise(self):
        """As Keras: Glorot's uniform, embeddings uniform in -0.05 to 0.05. Always
        the same f32 numbers, whatever type the parameters have."""
        torch.manual_seed(1)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0 if name.endswith("gamma") else 0.0)
            else:
                end = 0.05 if name.startswith("embedding") else math.sqrt(6 / sum(parameter.shape))
                parameter.copy_(torch.empty(parameter.shape).uniform_(-end, end))

    def forward(self, tokens, targets, ignore: int):
        """The mean loss over the targets that are not `ignore`."""
        table = self.embedding["token"]
        x = table(tokens) * math.sqrt(table.embedding_dim) + self.positional[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.output(x).flatten(0, 1), targets.flatten(), ignore_index=ignore)

    @staticmethod
    def is_transposed(name):
        """Whether the .tfm file stores this weight as [inputs, outputs]."""
        return name.endswith(".weight") and not name.startswith("embedding")


def make_model(info, tied):
    """That of `./m info --json`."""
    sizes = info["hyperparameters"]
    if info["model"] == "TransformerModel":
        return Lab(*(sizes[name] for name in ("vocabulary_size", "context", "embedding_dim", "num_heads", "num_blocks",
                                              "mlp_dim", "dropout_rate")))
    return GPT(*(sizes[name] for name in ("vocab", "context", "width", "heads", "layers")),
               drop=sizes.get("drop", 0.0), tied=tied)


def write_safetensors(path, tensors):
    """The format is a length, a JSON header and the bytes."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.cpu().numpy().astype("<f4").tobytes())


class Sums:
    """`data sums(...)`: one expression a window, padded; nothing after the
    answer is a target."""

    def __init__(self, data, vocabulary, sequence, ignore):
        random = numpy.random.default_rng(data["seed"])
        pairs = random.integers(0, data["max"] + 1, size=(data["count"], 2))
        kept = math.floor(data["count"] * (1 - data["validation"]) + 1e-6)
        pad = vocabulary[data["pad"]]
        rows = numpy.full((kept, sequence + 1), pad, dtype=numpy.int64)
        targets = numpy.full((kept, sequence), ignore, dtype=numpy.int64)
        for row, (a, b) in enumerate(pairs[:kept]):
            ids = [vocabulary[character] for character in f"{a}+{b}={a + b}{data['end']}"]
            rows[row, :len(ids)] = ids
            targets[row, :len(ids) - 1] = ids[1:]
        self.tokens, self.targets = rows[:, :-1].copy(), targets


class Stream:
    """A stream of tokens as windows side by side."""

    def __init__(self, ids, sequence):
        count = (len(ids) - 1) // sequence
        self.tokens = ids[:count * sequence].reshape(count, sequence)
        self.targets = ids[1:count * sequence + 1].reshape(count, sequence)


class Rows:
    """What `./m data --json` shows of the training part."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.tokens, self.targets = (numpy.array([row[name] for row in rows], dtype=numpy.int64)
                                     for name in ("tokens", "targets"))


def open_data(recipe, path, ignore):
    """The training part, in the order of `shuffle = false`."""
    data, sequence = recipe["data"], recipe["train"]["sequence"]
    if data["kind"] == "json":
        return Rows(path)
    if data["kind"] == "tokens":
        return Stream(numpy.fromfile(path, dtype="<u2").astype(numpy.int64), sequence)
    vocabulary = recipe["tokenizer"]["json"]["model"]["vocab"]
    if data["kind"] == "sums":
        return Sums(data, vocabulary, sequence, ignore)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = text[:math.floor(len(text) * (1 - data["validation"]) + 1e-6)]
    return Stream(numpy.array([vocabulary[character] for character in text], dtype=numpy.int64), sequence)


class Peer:
    """A model, its data and its optimizer."""

    def __init__(self, request):
        torch.set_num_threads(request["threads"])
        self.info = info = request["info"]
        self.recipe = info["recipe"]
        self.device = torch.device(request["device"])
        # f32 products are those of f32, as ours are.
        torch.set_float32_matmul_precision("highest")
        self.model = make_model(info, request["tied"]).to(self.device)
        count = sum(parameter.numel() for parameter in self.model.parameters())
        if count != info["parameters"]["total"]:
            raise SystemExit(f"the model has {info['parameters']['total']} parameters, PyTorch's has {count}")
        self.model.to(getattr(torch, request["dtype"]))
        self.compiles = request["compile"]
        if not self.recipe.get("train"):
            self.model.initialise()
            return
        ignore = self.recipe["train"]["loss"]["ignore"]
        if isinstance(ignore, str):
            ignore = self.recipe["tokenizer"]["json"]["model"]["vocab"][ignore]
        self.ignore = -100 if ignore is None else ignore
        data = open_data(self.recipe, request["data"], self.ignore)
        self.tokens, self.targets = (torch.from_numpy(rows).to(self.device) for rows in (data.tokens, data.targets))
        # As nanoGPT trains: parameters of f32, products of bf16.
        self.autocast = torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=request["autocast"])
        self.loss = torch.compile(self.model) if self.compiles else self.model
        self.restart()

    def restart(self):
        """Back to the first weights, with a new optimizer."""
        self.model.initialise()
        rule = self.recipe["train"]["optimizer"]
        groups = ([], [])
        for parameter in self.model.parameters():
            groups[parameter.dim() >= rule["decay_min_rank"]].append(parameter)
        self.optimizer = torch.optim.AdamW(
            [{"params": groups[0], "weight_decay": 0.0},
             {"params": groups[1], "weight_decay": rule["weight_decay"]}],
            lr=rule["lr"], betas=tuple(rule["betas"]), eps=rule["eps"], fused=True)
        self.step_number = 0

    def learning_rate(self, steps):
        """The recipe's, and of `cosine` nanoGPT's get_lr, of a run of `steps` steps."""
        schedule, peak = self.recipe["train"]["schedule"], self.recipe["train"]["optimizer"]["lr"]
        step = self.step_number
        if schedule["kind"] == "constant" and schedule["warmup"] == 0:
            return peak
        if schedule["kind"] != "cosine":
            raise SystemExit(f"the schedule {schedule['kind']} is not written down here")
        if step < schedule["warmup"]:
            return peak * (step + 1) / (schedule["warmup"] + 1)
        if step >= steps:
            return schedule["final"]
        done = (step - schedule["warmup"]) / (steps - schedule["warmup"])
        return schedule["final"] + 0.5 * (1 + math.cos(math.pi * done)) * (peak - schedule["final"])

    def step(self, steps):
        """One whole training step; returns its loss as a number."""
        train = self.recipe["train"]
        at = self.step_number * train["batch"] % (len(self.tokens) - train["batch"] + 1)
        rows = slice(at, at + train["batch"])
        rule = train["optimizer"]
        rate, eps = self.learning_rate(steps), rule["eps"]
        if rule["eps_placement"] == "keras":  # added to the root before its correction
            eps /= math.sqrt(1 - rule["betas"][1] ** (self.step_number + 1))
        for group in self.optimizer.param_groups:
            group["lr"], group["eps"] = rate, eps
        with self.autocast:
            loss = self.loss(self.tokens[rows], self.targets[rows], self.ignore)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if train["clip"]:
            nn.utils.clip_grad_norm_(self.model.parameters(), train["clip"])
        self.optimizer.step()
        self.step_number += 1
        return loss.item()

    def losses(self, steps):
        if steps * self.recipe["train"]["batch"] > len(self.tokens):
            raise SystemExit("the data is too short for a loss curve without repetition")
        self.restart()
        return [self.step(steps) for _ in range(steps)]

    def time(self, steps):
        """Seconds of each step. On a GPU one more comes before all but the first, and memory that PyTorch keeps for later is
        given back after them: all who are measured in turns would not fit at once."""
        times = []
        if self.device.type == "cuda" and self.step_number > 0:
            self.step(self.recipe["train"]["steps"])
        for _ in range(steps):
            start = time.perf_counter()
            self.step(self.recipe["train"]["steps"])
            times.append(time.perf_counter() - start)
        if self.device.type == "cuda":
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
        return times

    def seconds(self, what, runs):
        """Of a call, when as many have been queued before one waits."""
        def wait():
            if self.device.type == "cuda":
                torch.cuda.synchronize()
        for _ in range(3):
            what()
        wait()
        start = time.perf_counter()
        for _ in range(runs):
            what()
        wait()
        return (time.perf_counter() - start) / runs

    def random(self, *shape):
        return torch.randn(shape, dtype=torch.bfloat16, device=self.device)

    def product(self, sizes, runs):
        m, n, k = sizes
        a, b = self.random(m, k), self.random(k, n)
        return self.seconds(lambda: a @ b, runs)

    def attention(self, runs, backward):
        sizes, train = self.info["hyperparameters"], self.recipe["train"]
        q, k, v = (self.random(train["batch"], sizes["heads"], train["sequence"], sizes["width"] // sizes["heads"])
                   .requires_grad_(backward) for _ in range(3))
        def forward():
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if not backward:
            return self.seconds(forward, runs)
        y = forward()
        gradient = torch.randn_like(y)
        return self.seconds(lambda: torch.autograd.grad(y, (q, k, v), gradient, retain_graph=True), runs)

    @torch.no_grad()
    def decode(self, steps):
        self.model.eval()
        sizes = self.info["hyperparameters"]
        kind = next(self.model.parameters())
        caches = [[kind.new_zeros(sizes["heads"], sizes["context"], sizes["width"] // sizes["heads"])
                   for _ in range(2)] for _ in self.model.h]
        step = torch.compile(self.model.decode, mode="reduce-overhead") if self.compiles else self.model.decode
        token = torch.zeros(1, dtype=torch.int64, device=self.device)
        positions = torch.arange(sizes["context"], device=self.device)
        def generate(count, first):
            nonlocal token
            for position in range(first, first + count):
                token = step(token, positions[position:position + 1], caches).clone()
            return token.item()
        warm = 4
        generate(warm, 0)
        start = time.perf_counter()
        generate(steps, warm)
        return (time.perf_counter() - start) / steps

    def memory(self):
        return torch.cuda.max_memory_reserved() if self.device.type == "cuda" else peak_memory()

    def initial(self, path):
        self.restart()
        write_safetensors(path, {name: (value.T if self.model.is_transposed(name) else value).detach().contiguous()
                                 for name, value in self.model.named_parameters()})


    def answer(self, request):
        match request["do"]:
            case "initial":
                return self.initial(request["path"])
            case "losses":
                return self.losses(request["steps"])
            case "time":
                return self.time(request["steps"])
            case "product":
                return self.product(request["sizes"], request["runs"])
            case "attention" | "attention_backward" as kind:
                return self.attention(request["runs"], backward=kind == "attention_backward")
            case "decode":
                return self.decode(request["steps"])
            case "memory":
                return self.memory()
        raise SystemExit(f"nobody does {request['do']}")


def peak_memory():
    """Bytes; the high-water mark of this process's resident memory."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "open":
            imported = peak_memory()
            peer = Peer(request)
            answer = {"torch": torch.__version__, "imported": imported}
        else:
            answer = peer.answer(request)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
