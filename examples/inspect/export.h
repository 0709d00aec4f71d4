// `seppo export MODEL --to FORMAT`: the program that trained a model writes it for other tools.
#pragma once

#include "app/command_line.h"

#include <string>

namespace inspect {

// `argv0` is how this program was started. Returns only if --help has been answered.
int export_by_its_program(const std::string& argv0, const examples::Arguments& arguments);

}  // namespace inspect
