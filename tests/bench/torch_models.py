"""The models of torch_jobs.py, with modules named like seppo's, so that a seppo checkpoint is a state_dict."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def sinusoid(length, d):
    angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).reshape(length, d)


class Norm(nn.Module):
    def __init__(self, d, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.bias = nn.Parameter(torch.zeros(d)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias)


class Attention(nn.Module):
    is_fused = False  # one op of PyTorch 2

    def __init__(self, d, heads, dropout=0.0, bias=True):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d, bias), nn.Linear(d, d, bias)
        self.heads, self.dropout = heads, dropout

    def split(self, x):  # [batch, rows, d] -> [batch, heads, rows, width]
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def part(self, x, begin, end):
        d = x.shape[-1]
        bias = None if self.in_proj.bias is None else self.in_proj.bias[begin * d:end * d]
        return F.linear(x, self.in_proj.weight[begin * d:end * d], bias)

    def attend(self, q, k, v, mask=None):
        if self.is_fused:
            heads = F.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v),
                                                   dropout_p=self.dropout if self.training else 0.0,
                                                   is_causal=mask is not None)
            return self.out_proj(heads.transpose(1, 2).reshape(q.shape))
        scores = self.split(q) @ self.split(k).transpose(-2, -1) / math.sqrt(q.shape[-1] // self.heads)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, self.training)
        return self.out_proj((weights @ self.split(v)).transpose(1, 2).reshape(q.shape))

    def forward(self, x, memory=None, mask=None):
        if memory is None:
            return self.attend(*self.in_proj(x).chunk(3, -1), mask)
        return self.attend(self.part(x, 0, 1), *self.part(memory, 1, 3).chunk(2, -1))


class FeedForward(nn.Module):
    def __init__(self, d, ff, activation=F.relu, bias=True):
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(d, ff, bias), nn.Linear(ff, d, bias), activation

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Layer(nn.Module):
    """order: "post" = norm(x + drop(f(x))), "after" = drop(norm(x + f(x))), "pre" = x + drop(f(norm(x)))"""

    def __init__(self, d, heads, ff, dropout, order, cross=False, bias=True, activation=F.relu, attn_dropout=0.0):
        super().__init__()
        self.self_attn = Attention(d, heads, attn_dropout, bias)
        if cross:
            self.cross_attn = Attention(d, heads, attn_dropout, bias)
        self.ffn = FeedForward(d, ff, activation, bias)
        self.norm1, self.norm2 = Norm(d, bias), Norm(d, bias)
        if cross:
            self.norm3 = Norm(d, bias)
        self.dropout, self.order, self.cross = dropout, order, cross

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def add_norm(self, norm, x, sublayer):
        if self.order == "pre":
            return x + self.drop(sublayer(norm(x)))
        if self.order == "after":
            return self.drop(norm(x + sublayer(x)))
        return norm(x + self.drop(sublayer(x)))

    def forward(self, x, memory=None, mask=None):
        x = self.add_norm(self.norm1, x, lambda y: self.self_attn(y, mask=mask))
        if not self.cross:
            return self.add_norm(self.norm2, x, self.ffn)
        x = self.add_norm(self.norm2, x, lambda y: self.cross_attn(y, memory))
        return self.add_norm(self.norm3, x, self.ffn)


class Transformer(nn.Module):
    def __init__(self, vocabulary, d, heads, ff, layers, dropout, order):
        super().__init__()
        self.embedding, self.order, self.dropout, self.d = nn.Embedding(vocabulary, d), order, dropout, d
        self.encoder = nn.ModuleList(Layer(d, heads, ff, dropout, order) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(d, heads, ff, dropout, order, cross=True) for _ in range(layers))
        if order == "after":
            self.output = nn.Linear(d, vocabulary)
        else:
            nn.init.normal_(self.embedding.weight, std=d ** -0.5)
        self.register_buffer("positions", sinusoid(64, d), persistent=False)
        self.register_buffer("mask", torch.full((64, 64), -math.inf).triu(1), persistent=False)

    def embed(self, tokens, first=0):
        x = self.embedding(tokens)
        positions = self.positions[first:first + tokens.shape[1]]
        if self.order == "after":
            return x + positions
        return F.dropout(x * math.sqrt(self.d) + positions, self.dropout, self.training)

    def encode(self, src):
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x)
        return x

    def out(self, x):
        return self.output(x) if self.order == "after" else F.linear(x, self.embedding.weight)

    def forward(self, src, tgt):
        memory, y, n = self.encode(src), self.embed(tgt), tgt.shape[1]
        for layer in self.decoder:
            y = layer(y, memory, self.mask[:n, :n])
        return self.out(y)

    def greedy(self, src, steps):
        memory, batch = self.encode(src), src.shape[0]
        cross = [layer.cross_attn.part(memory, 1, 3).chunk(2, -1) for layer in self.decoder]
        cache = [torch.empty(2, batch, steps, self.d) for _ in self.decoder]
        token = torch.zeros(batch, 1, dtype=torch.long)
        for t in range(steps):
            x = self.embed(token, t)
            for layer, kv, memory_kv in zip(self.decoder, cache, cross):
                q, kv[0][:, t:t + 1], kv[1][:, t:t + 1] = layer.self_attn.in_proj(x).chunk(3, -1)
                x = layer.norm1(x + layer.self_attn.attend(q, kv[0][:, :t + 1], kv[1][:, :t + 1]))
                x = layer.norm2(x + layer.cross_attn.attend(layer.cross_attn.part(x, 0, 1), *memory_kv))
                x = layer.norm3(x + layer.ffn(x))
            token = self.out(x).argmax(-1)
        return token


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.input, self.encoder = nn.Linear(10, 32), nn.ModuleList([Layer(32, 1, 64, 0.0, "post")])
        self.output = nn.ModuleDict({"hidden": nn.Linear(32, 32), "norm": Norm(32), "classes": nn.Linear(32, 10)})
        self.register_buffer("positions", sinusoid(16, 32), persistent=False)

    def forward(self, x):
        y = self.encoder[0](self.input(F.one_hot(x, 10).to(self.positions)) + self.positions)
        return self.output["classes"](F.relu(self.output["norm"](self.output["hidden"](y))))


class LanguageModel(nn.Module):
    def __init__(self, dropout, vocabulary=65, d=384, heads=6, layers=6, length=256, bias=False):
        super().__init__()
        self.embedding, self.positions, self.dropout = nn.Embedding(vocabulary, d), nn.Embedding(length, d), dropout
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.layers = nn.ModuleDict({str(i): Layer(d, heads, 4 * d, dropout, "pre", bias=bias, activation=F.gelu,
                                                   attn_dropout=dropout) for i in range(layers)})
        self.layers["norm"] = Norm(d, bias)
        self.register_buffer("mask", torch.full((length, length), -math.inf).triu(1), persistent=False)

    def forward(self, tokens):
        x = F.dropout(self.embedding(tokens) + self.positions.weight, self.dropout, self.training)
        for layer in list(self.layers.values())[:-1]:
            x = layer(x, mask=self.mask)
        return F.linear(self.layers["norm"](x), self.embedding.weight)
