// --build-info: what a program was built from and with, and what it computes with on this processor.
#pragma once

#include <string>

namespace examples {

// A line for each fact: "compiler      GNU 12.2.0, Release".
std::string build_info(const std::string& program);

}  // namespace examples
