// FlushDenormals: denormal numbers are zero for a scope, on the calling thread.
//
// Arithmetic on denormals takes about twenty times as long; training wraps its shards in this.
#pragma once

#include "real.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Sets flush-to-zero and denormals-are-zero.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned long long saved_;
};

// The processor's rounding and denormal modes, which a thread adopts to help another.
unsigned long long float_mode();
void set_float_mode(unsigned long long mode);

}  // namespace SEPPO_ABI
}  // namespace seppo
