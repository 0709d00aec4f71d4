// What is just beyond an end of its range is refused, whichever field of a config it is.
#pragma once

#include <seppo/autograd/core/check.h>
#include <seppo/nn/config.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <string>

namespace test {

// make(config) must take `good`, and throw ArgumentError naming the field if one of its fields is out of range.
template <class Config, class Make>
void check_ranges(const Config& good, const Make& make) {
  make(good);
  Config any = good;
  const std::size_t count = seppo::fields_of(any).size();
  for (std::size_t i = 0; i < count; ++i)
    for (const bool is_high : {false, true}) {
      Config bad = good;
      const seppo::Field field = seppo::fields_of(bad)[i];
      const double end = is_high ? field.range.most : field.range.least;
      const double beyond = std::nextafter(end, is_high ? HUGE_VAL : -HUGE_VAL);
      if (const auto* const integer = std::get_if<int*>(&field.value))
        **integer = static_cast<int>(end) + (is_high ? 1 : -1);
      else if (const auto* const number = std::get_if<double*>(&field.value))
        **number = beyond;
      else if (const auto* const pair = std::get_if<std::array<double, 2>*>(&field.value))
        (**pair)[is_high] = beyond;
      else if (const auto* const choice = std::get_if<seppo::Choice>(&field.value))
        choice->set(is_high ? static_cast<int>(choice->names.size()) : -1);
      else
        continue;
      BOOST_TEST_CONTEXT(field.name << (is_high ? " too large" : " too small"))
      BOOST_CHECK_EXCEPTION(make(bad), seppo::ArgumentError, [&](const seppo::ArgumentError& e) {
        return std::string(e.what()).find(": " + std::string(field.name) + " ") != std::string::npos;
      });
    }
}

}  // namespace test
