// Digests by xxHash.
#include "digest.h"

#define XXH_INLINE_ALL  // header-only
#include <xxhash.h>
#include <new>

namespace seppo {
inline namespace SEPPO_ABI {

static_assert(sizeof(XXH3_state_t) == 576 && alignof(XXH3_state_t) <= 64);

Digest::Digest() { XXH3_128bits_reset(new (state_) XXH3_state_t); }

void Digest::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(reinterpret_cast<XXH3_state_t*>(state_), data, bytes);
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state_)));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
