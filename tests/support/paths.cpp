// The only source of the tests that knows where they were built, so that others compile alike everywhere.
#include "support/paths.h"

namespace test {

const std::string& source_folder() {
  static const std::string folder = SEPPO_SOURCE_DIR;
  return folder;
}

const std::string& programs_folder() {
  static const std::string folder = SEPPO_BIN_DIR;
  return folder;
}

}  // namespace test
