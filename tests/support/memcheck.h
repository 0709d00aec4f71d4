// Memcheck makes a test 50 to 100 times slower, so repetition in which it could not find anything new is left out.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstdlib>

namespace test {

// Whether this process, or the one that started it, runs within memcheck.
inline bool is_in_memcheck() { return std::getenv("SEPPO_TEST_MEMCHECK") != nullptr; }

// Sanitizers and memcheck use memory themselves, so limits and measurements would not be the program's own.
inline bool takes_memory_itself() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return is_in_memcheck();
#endif
}

// For a test case that trains until a task is learned, or otherwise computes for long:
//   BOOST_AUTO_TEST_CASE(name, *boost::unit_test::precondition(test::ends_in_time))
inline boost::test_tools::assertion_result ends_in_time(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result result(!is_in_memcheck());
  result.message() << "skipped: it would take too long within memcheck";
  return result;
}

}  // namespace test
