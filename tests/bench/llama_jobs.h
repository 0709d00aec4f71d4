// J11 and J12: a LLaMA of the shape of SmolLM2-135M (30 layers; Allal et al. 2025).
#pragma once

#include "job.h"

namespace jobs {

// Training steps of adapters of rank 8 beside all its projections: 4 sequences of 256 tokens.
void bench_finetuning(const Bench& bench, int layers);

// A prompt of so many tokens read, and then tokens written one by one. Each sees the last `window` tokens; 0: all.
void bench_writing(const Bench& bench, int layers, int prompt, int window);

}  // namespace jobs
