"""The twin of examples/small/server.cpp; prompts of a batch are padded on the left."""
import queue
import sys
import threading

import torch
from torch import nn
from torch.nn import functional as F

from common import RandomStream, SAMPLING

VOCABULARY, WINDOW, D_MODEL, HEADS, LAYERS, MAX_TOKENS = 100, 64, 384, 6, 2, 16


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D_MODEL))

    def forward(self, x):
        return F.layer_norm(x, [D_MODEL], self.weight)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.in_proj, self.out_proj = linear(D_MODEL, 3 * D_MODEL), linear(D_MODEL, D_MODEL)
        self.up, self.down = linear(D_MODEL, 4 * D_MODEL), linear(4 * D_MODEL, D_MODEL)
        self.norm1, self.norm2 = Norm(), Norm()

    def forward(self, x, mask, cache):
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.in_proj(self.norm1(x)).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        weights = (q @ k.transpose(-2, -1) / (D_MODEL // HEADS) ** 0.5 + mask).softmax(-1)
        x = x + self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, D_MODEL), nn.Embedding(WINDOW, D_MODEL)
        self.layers, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), Norm()

    def forward(self, texts, pads, caches):  # texts [batch, new]: the tokens after those in the caches
        past = 0 if caches[0] is None else caches[0][0].shape[2]
        queries, keys = torch.arange(past, past + texts.shape[1]), torch.arange(past + texts.shape[1])
        x = self.embedding(texts) + self.positions((queries - pads[:, None]).clamp(min=0))
        is_hidden = (keys > queries[:, None]) | (keys < pads[:, None, None])
        mask = torch.zeros(is_hidden.shape).masked_fill(is_hidden, torch.finfo(x.dtype).min)[:, None]
        for i, layer in enumerate(self.layers):
            x, caches[i] = layer(x, mask, caches[i])
        return self.norm(x[:, -1]) @ self.embedding.weight.T


def sample(scores, random):
    weights = (scores - scores.max()).exp().double()
    return int((weights.cumsum(0) <= random.uniform() * weights.sum()).sum())


class Serving:
    def __init__(self):
        self.model = Gpt()

    @torch.no_grad()
    def answer(self, batch):
        length = max(len(prompt) for _, prompt in batch)
        pads = torch.tensor([length - len(prompt) for _, prompt in batch])
        randoms = [RandomStream(number, SAMPLING) for number, _ in batch]
        texts = torch.tensor([[0] * (length - len(prompt)) + prompt for _, prompt in batch])
        caches, answers = [None] * LAYERS, [[] for _ in batch]
        for _ in range(MAX_TOKENS):
            scores = self.model(texts, pads, caches)
            for answer, row, random in zip(answers, scores, randoms):
                answer.append(sample(row, random))
            texts = torch.tensor([answer[-1:] for answer in answers])
        return answers


def take(waiting, most):
    """Waits for a request, and takes those that are there; none at the end."""
    taken = [waiting.get()]
    while taken[-1] is not None and len(taken) < most and not waiting.empty():
        taken.append(waiting.get())
    if taken[-1] is None:
        waiting.put(taken.pop())  # for the other threads
    return taken


def read_tokens(line):
    tokens = [int(word) if word.isdecimal() else -1 for word in line.split()]
    return tokens if all(0 <= token < VOCABULARY for token in tokens) else []


def serve(serving, n_threads, batch, lines, tell):
    waiting, output = queue.Queue(), threading.Lock()

    def answer_requests():
        while taken := take(waiting, batch):
            for (number, _), text in zip(taken, serving.answer(taken)):
                with output:
                    tell(number, text)

    threads = [threading.Thread(target=answer_requests) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for number, line in enumerate(lines):
        prompt = read_tokens(line)
        if prompt:
            waiting.put((number, prompt))
        else:
            with output:
                tell(number, [])
    waiting.put(None)
    for thread in threads:
        thread.join()


def answers(serving, n_threads):
    """The answers to forty requests."""
    told = {}
    serve(serving, n_threads, 1, [f"{i} {2 * i}" for i in range(40)], told.__setitem__)
    return told


def main():
    serving = Serving()
    if len(sys.argv) == 3:
        threads, batch = map(int, sys.argv[1:])
        serve(serving, threads, batch, sys.stdin, lambda number, text: print(f"{number}:", *text, flush=True))
    else:
        are_equal = answers(serving, 8) == answers(serving, 1)
        print("eight threads", "answer" if are_equal else "do not answer", "as one")


if __name__ == "__main__":
    main()
