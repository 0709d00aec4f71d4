// Digest: whether data are the same as before, and a file undamaged. XXH3 of 128 bits (Collet 2021), as `xxhsum -H2`
// prints it. It recognises accidents, not forgers: anyone can compute one.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <string>

namespace seppo::inline SEPPO_ABI {

class Digest {
 public:
  Digest();
  void add(const void* data, std::size_t bytes);
  std::string hex() const;  // 32 digits

 private:
  alignas(64) std::byte state_[576];  // the library's
};

}  // namespace seppo::inline SEPPO_ABI
