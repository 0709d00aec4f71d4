// All public headers: #include <seppo/seppo.h>. A source file that uses only some compiles faster with these alone, such
// as <seppo/autograd/ops.h>.
//
// `using namespace std;` beside `using namespace seppo;` makes two names ambiguous, std::real (<complex>) and
// std::rank: write seppo::real and seppo::rank then, or leave out the former.
#pragma once

#include "../autograd/blas/multiply.h"
#include "../autograd/core/parallel.h"
#include "../autograd/ops.h"
#include "../autograd/tools/checkpointing.h"
#include "../autograd/tools/observers.h"
#include "../nn/config.h"
#include "../nn/data/permutation.h"
#include "../nn/data/ragged.h"
#include "../nn/data/sampler.h"
#include "../nn/data/text.h"
#include "../nn/gradient_check.h"
#include "../nn/io/checkpoint.h"
#include "../nn/io/model_file.h"
#include "../nn/layers/attention.h"
#include "../nn/layers/basic.h"
#include "../nn/optim/optimisers.h"
#include "../nn/parameters.h"
#include "../nn/train/ranks.h"
#include "../nn/train/trainer.h"
#include "decoding.h"
#include "language_model.h"
#include "transformer.h"
