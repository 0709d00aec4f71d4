// Random shapes for tests of ops.
#pragma once

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/core/tensor.h>

namespace test {

// A shape of at most `rank` axes; now and then an axis has no elements.
seppo::Shape random_shape(seppo::RandomStream& random, int rank);

// A shape that broadcasts to the given one: some axes are 1, some in front are missing.
seppo::Shape random_operand(seppo::RandomStream& random, const seppo::Shape& shape);

}  // namespace test
