// Digest: tells whether data have changed.
//
//   Digest digest;
//   digest.add(numbers.data(), numbers.size() * sizeof numbers[0]);
//   if (digest.hex() != expected) ...
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// A checksum that tells whether data have changed or a file is damaged: XXH3 of 128 bits (Collet 2021), as `xxhsum -H2`
// prints it. It detects accidents, not forgery: anyone can compute one.
class Digest {
 public:
  Digest();
  void add(const void* data, std::size_t bytes);
  std::string hex() const;  // 32 digits

 private:
  alignas(64) std::byte state_[576];  // the library's
};

}  // namespace SEPPO_ABI
}  // namespace seppo
