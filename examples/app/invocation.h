// How the program was started, for commands that it suggests: they must be what a user can type.
#pragma once

#include <string>

namespace examples {

// Called by guarded() with argv[0].
void set_program_as_typed(const std::string& argv0);
// The program as it was typed, quoted for a shell where necessary: "reverse", "seppo-reverse", "build/bin/reverse". The
// program's own name if that is not known, as in tests.
std::string program_as_typed(const std::string& name);
// The same without its folder, for usage texts.
std::string program_file(const std::string& name);

// A word of a command line, quoted for a shell where necessary.
std::string shell_word(const std::string& word);

}  // namespace examples
