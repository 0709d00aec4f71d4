// Digest: the xxHash library, compiled in here so that nothing more is linked.
#include "digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace seppo::inline SEPPO_ABI {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Digest::~Digest() = default;

void Digest::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(&state_->hash, data, bytes);
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace seppo::inline SEPPO_ABI
