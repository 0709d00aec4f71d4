// How arguments are drawn.
#include "support/ops/draw.h"

#include <limits>

namespace test {

Shape Draw::any_shape() {
  std::vector<int> sizes(static_cast<std::size_t>(choose(5)));
  for (int& size : sizes) size = choose(4);
  return Shape(std::span<const int>(sizes));
}

Shape Draw::first(const std::vector<Shape>& typical) { return strays() ? any_shape() : one_of(typical); }

Shape Draw::take(const Shape& wanted) {
  if (!strays()) return wanted;
  if (wanted.rank() == 0 || choose(2) == 0) return any_shape();
  const int axis = choose(wanted.rank());
  return wanted.with(axis, wanted[axis] + 1);
}

Shape Draw::broadcastable(const Shape& other) {
  std::vector<int> sizes = sizes_of(other);
  const auto each = [&](auto f) {
    for (int& size : sizes) size = f(size);
  };
  switch (choose(8)) {
    case 0:
      break;
    case 1:
      if (!sizes.empty()) sizes.back() = 1;
      break;
    case 2:
      if (!sizes.empty()) sizes.front() = 1;
      break;
    case 3:
      if (!sizes.empty()) sizes.erase(sizes.begin());
      break;
    case 4:
      sizes.clear();
      break;
    case 5:
      each([](int) { return 1; });
      break;
    case 6:  // both operands are broadcast
      each([](int size) { return size == 1 ? 4 : 1; });
      break;
    default:
      if (sizes.size() < Shape::kMaxRank) sizes.insert(sizes.begin(), 2);
  }
  return Shape(std::span<const int>(sizes));
}

int Draw::integer(int low, int high) {
  if (!strays()) return low + choose(high - low + 1);
  switch (choose(4)) {
    case 0:
      return low - 1;
    case 1:
      return high + 1;
    case 2:
      return -1000;
    default:
      return 1000;
  }
}

int Draw::index(int low, int high) {
  if (strays() && strays()) return choose(2) == 0 ? low - 1 : high + 1;
  return low + choose(high - low + 1);
}

std::vector<int> Draw::indices(std::size_t count, int low, int high) {
  std::vector<int> all(count, 0);
  if (low > high) return all;
  for (int& one : all) one = index(low, high);
  return all;
}

double Draw::number(const std::vector<double>& typical) {
  if (!strays()) return one_of(typical);
  return choose(2) == 0 ? std::numeric_limits<double>::quiet_NaN() : -0.5;
}

bool EveryDraw::next() {
  inputs.clear();
  made_ = 0;
  while (!choices_.empty() && ++choices_.back().made == choices_.back().count) choices_.pop_back();
  return !choices_.empty();
}

int EveryDraw::choose(int count) {
  if (made_ == choices_.size()) choices_.push_back({0, count});
  return choices_[made_++].made;
}

int EveryDraw::index(int low, int high) {
  return low + static_cast<int>(random_.below(static_cast<std::uint32_t>(high - low + 1)));
}

}  // namespace test
