// Chooses a program's command, runs it, and turns every way in which it can end into an exit code.
#include "app/build_info.h"
#include "app/command_line.h"
#include "app/description.h"
#include "app/help_text.h"
#include "app/invocation.h"
#include "app/terminal.h"

#include <seppo/autograd/blas/idle_threads.h>
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/scoped_value.h>
#include <seppo/nn/train/interrupts.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <thread>

namespace examples {

using seppo::printable;

namespace {

// "a: ", or "a, b: " for an operation on two paths.
std::string places_of(const std::filesystem::filesystem_error& e) {
  std::string places;
  for (const std::filesystem::path& path : {e.path1(), e.path2()})
    if (!path.empty()) places += (places.empty() ? "" : ", ") + seppo::printable_path(std::filesystem::path(path));
  return places.empty() ? "" : places + ": ";
}

CommandText* description_wanted = nullptr;

// Answers --man and --completion SHELL; false for anything else.
bool print_description(const std::string& program, const std::string& about, const std::vector<Command>& commands,
                       const Arguments& arguments) {
  const bool is_page = arguments == Arguments{"--man"};
  const bool is_completion = arguments.size() == 2 && arguments[0] == "--completion";
  if (!is_page && !is_completion) return false;
  ProgramText text{program, about, {}};
  for (const Command& command : commands) text.commands.push_back(describe(command));
  if (text.about.empty()) text.about = text.commands[0].about;
  std::cout << (is_page ? manual_page(text) : completion(text, arguments[1]));
  return true;
}

}  // namespace

bool is_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

void print_version(const std::string& program) { std::cout << program << " (seppo) " << SEPPO_VERSION << "\n"; }

int guarded(const char* argv0, const std::function<int()>& f) {
  seppo::restart_without_idle_blas_threads();
  // A file opened while a standard stream is closed would become that stream.
  int spare = ::open("/dev/null", O_RDWR);
  while (spare >= 0 && spare <= STDERR_FILENO) spare = ::open("/dev/null", O_RDWR);
  if (spare >= 0) ::close(spare);
  set_program_as_typed(argv0);
  const auto complain = [&](const std::string& what, int code) {
    const std::string text = fmt::format("{}: {}", program_file(argv0), what);
    if (seppo::ranks() == 1) {
      std::cerr << coloured(text, Colour::red, STDERR_FILENO) << std::endl;
      return code;
    }
    // If all ranks fail alike, the first one reports it and ends the others before they repeat it.
    if (seppo::rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    std::fputs(seppo::rank() > 0 ? fmt::format("rank {}: {}\n", seppo::rank(), text).c_str() : (text + "\n").c_str(),
               stderr);
    seppo::end_all_ranks(code);
  };
  if (seppo::rank() > 0) {  // only the first one prints
    std::cout.rdbuf(nullptr);
    std::cerr.rdbuf(nullptr);
  }
  constexpr int kUsage = 2, kFailure = 1, kInputOutput = 74;
  ::signal(SIGXFSZ, SIG_IGN);  // writing beyond the file size limit then fails instead of ending the program
  try {
    const int code = f();
    return seppo::rank() > 0 || std::cout.flush().good() ? code
                                                         : complain("standard output: cannot write", kInputOutput);
  } catch (const UsageError& e) {
    return complain(e.what(), kUsage);
  } catch (const seppo::Interrupted& e) {
    return 128 + e.signal;
  } catch (const seppo::FileError& e) {
    return complain(e.what(), kInputOutput);
  } catch (const std::filesystem::filesystem_error& e) {
    return complain(places_of(e) + e.code().message(), kInputOutput);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailure);
  } catch (const std::exception& e) {
    return complain(e.what(), kFailure);
  }
}

CommandText* described_command() { return description_wanted; }

CommandText describe(const Command& command) {
  CommandText text;
  if (!command.is_program) {
    const seppo::ScopedValue<CommandText*> wanted(description_wanted, &text);
    command.run({});
  }
  text.name = command.name;
  text.summary = command.summary;
  // "addsub train FILE [options]" -> "FILE [options]"
  for (int words = command.name.empty() ? 1 : 2; words > 0 && !text.words.empty(); --words)
    text.words.erase(0, std::min(text.words.find(' '), text.words.size() - 1) + 1);
  return text;
}

int run_command(int argc, char** argv, const std::function<int(const Arguments& arguments)>& run) {
  return guarded(argv[0], [&] {
    const Arguments arguments(argv + 1, argv + argc);
    return print_description(program_file(argv[0]), "", {{.name = "", .summary = "", .run = run}}, arguments)
               ? 0
               : run(arguments);
  });
}

int run_commands(int argc, char** argv, const std::string& about, const std::vector<Command>& commands) {
  return guarded(argv[0], [&] {
    const std::string program = program_file(argv[0]);
    const std::string name = argc > 1 ? argv[1] : "";
    if (is_help(name) || name == "help") {
      std::cout << wrapped_paragraphs(about) << fmt::format("\nusage: {} COMMAND [options]\n\n", program);
      for (const Command& command : commands) std::cout << help_entry(command.name, command.summary);
      std::cout << fmt::format("\n`{} COMMAND --help` lists the options of a command.\n", program);
      return 0;
    }
    if (name == "--version") {
      print_version(program);
      return 0;
    }
    if (name == "--build-info") {
      std::cout << build_info(program);
      return 0;
    }
    if (print_description(program, about, commands, Arguments(argv + 1, argv + argc))) return 0;
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const Command& command : commands) names.push_back(command.name);
      throw UsageError(fmt::format("{}; give one of {} (--help for more)",
                                   name.empty() ? "no command" : "unknown command '" + printable(name) + "'",
                                   fmt::join(names, ", ")));
    }
    return found->run(Arguments(argv + 2, argv + argc));
  });
}

}  // namespace examples
