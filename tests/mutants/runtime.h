// The switch of tests/mutate, force-included into every file of the build with faults. Fault n is active if the
// environment variable SEPPO_MUTANT is n. Byte n of the file SEPPO_MUTANTS_SEEN, shared by all processes of a test
// case, records whether any of them executed fault n, however that process ended.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>

namespace seppo_mutant {

constexpr int kMost = 1 << 16;
inline int chosen() {
  const char* const text = std::getenv("SEPPO_MUTANT");
  return text ? std::atoi(text) : 0;
}
inline const int kChosen = chosen();

inline unsigned char own[kMost];
inline unsigned char* seen = own;   // valid before kIsShared is initialised
inline const bool kIsShared = [] {  // must not allocate: some tests let allocations fail
  const char* const path = std::getenv("SEPPO_MUTANTS_SEEN");
  const int file = path ? ::open(path, O_RDWR | O_CREAT, 0666) : -1;
  if (file < 0 || ::ftruncate(file, kMost) != 0) return false;
  void* const map = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (map == MAP_FAILED) return false;
  for (int i = 0; i < kMost; ++i)
    if (own[i]) static_cast<unsigned char*>(map)[i] = 1;
  seen = static_cast<unsigned char*>(map);
  return true;
}();

inline bool on(int n) {
  if (!seen[n]) seen[n] = 1;
  return n == kChosen;
}

// `a < b` becomes `a < Less{n} > b`, whose operators have the same precedence, and likewise for others: the first
// operator wraps a in a Left, the second one computes the result.
template <class Op, class A>
struct Left {
  const A& a;
  bool is_on;
};
#define SEPPO_MUTANT_OPERATOR(Name, first, second, right, wrong)                                  \
  struct Name {                                                                                   \
    int n;                                                                                        \
  };                                                                                              \
  template <class A>                                                                              \
  Left<Name, A> operator first(const A& a, Name name) {                                           \
    return {a, on(name.n)};                                                                       \
  }                                                                                               \
  template <class A, class B>                                                                     \
  auto operator second(Left<Name, A> left, const B& b)->decltype(left.a right b) {                \
    return left.is_on ? static_cast<decltype(left.a right b)>(left.a wrong b) : (left.a right b); \
  }
SEPPO_MUTANT_OPERATOR(Less, <, >, <, <=)
SEPPO_MUTANT_OPERATOR(LessEqual, <, >, <=, <)
SEPPO_MUTANT_OPERATOR(Greater, <, >, >, >=)
SEPPO_MUTANT_OPERATOR(GreaterEqual, <, >, >=, >)
SEPPO_MUTANT_OPERATOR(Equal, ==, ==, ==, !=)
SEPPO_MUTANT_OPERATOR(Unequal, ==, ==, !=, ==)
SEPPO_MUTANT_OPERATOR(Plus, +, +, +, -)
SEPPO_MUTANT_OPERATOR(Minus, +, +, -, +)
SEPPO_MUTANT_OPERATOR(Times, *, *, *, /)
SEPPO_MUTANT_OPERATOR(Over, *, *, /, *)
#undef SEPPO_MUTANT_OPERATOR

template <class A, class B>
bool both(int n, A a, const B& b) {
  return on(n) ? a || b() : a && b();
}
template <class A, class B>
bool either(int n, A a, const B& b) {
  return on(n) ? a && b() : a || b();
}
template <class T>
auto negative(int n, const T& x) -> decltype(x + x) {
  return on(n) ? -x : x;
}
struct Min {
  int n;
  template <class T>
  const T& operator()(const T& a, const T& b) const {
    return (b < a) != on(n) ? b : a;
  }
};
struct Max {
  int n;
  template <class T>
  const T& operator()(const T& a, const T& b) const {
    return (a < b) != on(n) ? b : a;
  }
};

}  // namespace seppo_mutant
