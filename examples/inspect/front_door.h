// `seppo addsub train ...`: runs the programs that are built or installed beside seppo.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace inspect {

struct Listed {
  const char *name, *summary;
};

// What `seppo --help` lists.
std::span<const Listed> listed_programs();

// If the first argument is one of these, becomes that program, NAME or, as it is installed, seppo-NAME, with the other
// arguments: exit codes and signals are its own. Returns if the argument is another, or if there is no such program.
void become_program(char** argv);

// Becomes a program with these arguments; returns if there is no such program. `argv0` is how this one was started.
void become(const std::string& argv0, const std::string& program, const std::vector<std::string>& arguments);

}  // namespace inspect
