// The library's positional encodings, and others that only courses teach, as one enumeration.
#pragma once

#include <seppo/nn/modules/positional_encoding.h>

#include <cmath>
#include <span>
#include <vector>

namespace examples {

enum class Positions {
  sinusoid,
  cosinusoid,
  floor_sinusoid,  // sin n and cos n alternating: the sinusoid with 2i / d rounded down
  count,           // n in every column
  simple,          // n / length in every column
  binary,          // the digits of n in base two, the lowest in column 0
  learned,
  rotary,
  alibi,
  coupled,  // sinusoids at positions that the task gives to its symbols, for models that can do so
  none
};
inline std::span<const char* const> enum_names(Positions) {
  static constexpr const char* kNames[] = {"sinusoid", "cosinusoid", "floor-sinusoid", "count",   "simple", "binary",
                                           "learned",  "rotary",     "alibi",          "coupled", "none"};
  return kNames;
}
constexpr const char* kPositionsHelp = "positional encoding";

// The library's name for an encoding; none for a course's own.
inline seppo::Positions library_positions(Positions kind) {
  switch (kind) {
    case Positions::sinusoid:
    case Positions::coupled:
      return seppo::Positions::sinusoid;
    case Positions::cosinusoid:
      return seppo::Positions::cosinusoid;
    case Positions::learned:
      return seppo::Positions::learned;
    case Positions::rotary:
      return seppo::Positions::rotary;
    case Positions::alibi:
      return seppo::Positions::alibi;
    default:
      return seppo::Positions::none;
  }
}

// For models whose task gives no positions. Throws ArgumentError for coupled ones.
inline void check_not_coupled(Positions kind) {
  seppo::check<seppo::ArgumentError>(kind != Positions::coupled,
                                     "positions coupled are for reverse with an encoder-decoder");
}

// Can the report page compute with them?
inline bool is_on_page(Positions kind) {
  return kind != Positions::rotary && kind != Positions::alibi && kind != Positions::coupled;
}

inline bool is_of_a_course(Positions kind) {
  return kind != Positions::none && library_positions(kind) == seppo::Positions::none;
}

// One element of an encoding that is not learned.
inline double position_value(Positions kind, int n, int column, int length, int d_model) {
  switch (kind) {
    case Positions::sinusoid:
      return seppo::sinusoid(n, column, d_model);
    case Positions::cosinusoid:
      return seppo::sinusoid(n, column ^ 1, d_model);
    case Positions::floor_sinusoid:
      return column % 2 == 0 ? std::sin(n) : std::cos(n);
    case Positions::count:
      return n;
    case Positions::simple:
      return static_cast<double>(n) / length;
    case Positions::binary:
      return column < 31 ? n >> column & 1 : 0;
    default:
      return 0;
  }
}

// If `kind` is a course's own, gives it to a model that was built with library_positions(kind).
inline void set_course_table(seppo::PositionalEncoding& encoding, const seppo::Scope& s, Positions kind, int d_model) {
  if (!is_of_a_course(kind)) return;
  encoding.table = s.constant({encoding.max_positions, d_model}, [&](auto values, const auto&, auto&) {
    std::size_t i = 0;
    for (int n = 0; n < encoding.max_positions; ++n)
      for (int j = 0; j < d_model; ++j)
        values[i++] = static_cast<seppo::real>(position_value(kind, n, j, encoding.max_positions, d_model));
  });
}

}  // namespace examples
