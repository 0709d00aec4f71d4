// Philox in scalar code (kernels/dropout-inl.h has the vector code), and the distributions of streams.
#include "random.h"

#include "check.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

Purpose own_purpose(int n) {
  constexpr int kLibrary = 128;  // a purpose has 8 bits; the first half is the library's
  check<ArgumentError>(n >= 0 && n < kLibrary, "own_purpose: ", n, " is not in 0..", kLibrary - 1);
  return static_cast<Purpose>(kLibrary + n);
}

std::array<std::uint32_t, 4> philox(std::uint64_t key, const std::array<std::uint32_t, 4>& counter) {
  auto [x0, x1, x2, x3] = counter;
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x0, p1 = std::uint64_t{0xCD9E8D57u} * x2;
    x0 = static_cast<std::uint32_t>(p1 >> 32) ^ x1 ^ k0;
    x1 = static_cast<std::uint32_t>(p1);
    x2 = static_cast<std::uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x3 = static_cast<std::uint32_t>(p0);
  }
  return {x0, x1, x2, x3};
}

std::uint32_t RandomStream::next() {
  if (used_ == 4) {
    buffer_ = philox(seed_, {block_++, static_cast<std::uint32_t>(index_), static_cast<std::uint32_t>(index_ >> 32),
                             static_cast<std::uint32_t>(purpose_) << 24});
    used_ = 0;
  }
  return buffer_[static_cast<std::size_t>(used_++)];
}

double RandomStream::uniform() {
  const std::uint64_t high = next();
  return static_cast<double>((high << 32 | next()) >> 11) * 0x1p-53;
}

double RandomStream::normal() {
  if (std::exchange(has_spare_, false)) return spare_;
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

void RandomStream::skip(std::uint64_t numbers) {
  const auto left = static_cast<std::uint64_t>(4 - used_);
  has_spare_ = false;
  if (numbers <= left) {
    used_ += static_cast<int>(numbers);
    return;
  }
  block_ += static_cast<std::uint32_t>((numbers - left) / 4);
  used_ = 4;
  for (std::uint64_t rest = (numbers - left) % 4; rest > 0; --rest) next();
}

std::uint32_t RandomStream::below(std::uint32_t n) {
  // Multiply and shift, rejecting the few numbers that would bias the result (Lemire 2019).
  const std::uint32_t threshold = -n % n;
  for (;;) {
    const std::uint64_t product = std::uint64_t{next()} * n;
    if (static_cast<std::uint32_t>(product) >= threshold) return static_cast<std::uint32_t>(product >> 32);
  }
}

int RandomStream::index(int n) {
  check<ArgumentError>(n > 0, "RandomStream: index(", n, ") needs a positive number");
  return static_cast<int>(below(static_cast<std::uint32_t>(n)));
}

std::vector<int> random_permutation(int n, RandomStream random) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  return order;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
