// Where the sources and the programs of this build are.
#pragma once

#include <string>

namespace test {

const std::string& source_folder();
const std::string& programs_folder();  // build/PRESET/bin

}  // namespace test
