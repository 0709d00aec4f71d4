"""GPT-2 and LLaMA in plain PyTorch, with Hugging Face's names and layouts."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Conv1D(nn.Module):
    """A linear map whose weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def heads_of(x, n):
    """[batch, time, n * width] -> [batch, n, time, width]"""
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def attend(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = torch.triu(torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool), 1)
    return (scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(-2)


class GPT2Attention(nn.Module):
    def __init__(self, d, heads, length):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, Conv1D(d, 3 * d), Conv1D(d, d)
        self.register_buffer("bias", torch.ones(length, length, dtype=torch.bool).tril()[None, None])

    def forward(self, x):
        return self.c_proj(attend(*(heads_of(y, self.heads) for y in self.c_attn(x).chunk(3, -1))))


class GPT2Block(nn.Module):
    def __init__(self, d, heads, length):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(d), GPT2Attention(d, heads, length), nn.LayerNorm(d)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(d, 4 * d), "c_proj": Conv1D(4 * d, d)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary, length, d, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.h = nn.ModuleList(GPT2Block(d, heads, length) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[:ids.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x):
    """Rotates columns i and i + width / 2 of [..., time, width] by time * 10000^(-2i / width)."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class LlamaAttention(nn.Module):
    def __init__(self, d, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, kv = heads, kv_heads, d // heads * kv_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d, n, bias=False) for n in (d, kv, kv))
        self.o_proj = nn.Linear(d, d, bias=False)

    def forward(self, x):
        share = self.heads // self.kv_heads
        q = rotated(heads_of(self.q_proj(x), self.heads))
        k = rotated(heads_of(self.k_proj(x), self.kv_heads)).repeat_interleave(share, 1)
        return self.o_proj(attend(q, k, heads_of(self.v_proj(x), self.kv_heads).repeat_interleave(share, 1)))


class LlamaMLP(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(i, o, bias=False) for i, o in ((d, ff), (d, ff), (ff, d)))

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, d, heads, kv_heads, ff):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(d, heads, kv_heads), LlamaMLP(d, ff)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d), RMSNorm(d)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, vocabulary, d, layers, heads, kv_heads, ff, tied):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocabulary, d)
        self.model.layers = nn.ModuleList(LlamaBlock(d, heads, kv_heads, ff) for _ in range(layers))
        self.model.norm = RMSNorm(d)
        if not tied:
            self.lm_head = nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for block in self.model.layers:
            x = block(x)
        x = self.model.norm(x)
        return self.lm_head(x) if hasattr(self, "lm_head") else x @ self.model.embed_tokens.weight.T
