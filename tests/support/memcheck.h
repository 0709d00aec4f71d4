// Memcheck makes a test 50 to 100 times slower, so repetition in which it could not find anything new is left out.
#pragma once

#include <cstdlib>

namespace test {

// Whether this process, or the one that started it, runs within memcheck.
inline bool is_in_memcheck() { return std::getenv("SEPPO_TEST_MEMCHECK") != nullptr; }

}  // namespace test
