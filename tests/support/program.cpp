// Processes, and the folder in which they run.
#include "support/program.h"

namespace test {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

Words words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Folder::Folder(const std::string& name)
    : path(fs::temp_directory_path() / ("seppo-" + name + "-" + std::to_string(::getpid()))) {
  fs::remove_all(path);
  fs::create_directories(path);
}

Folder::~Folder() {
  fs::remove_all(path);
  for (const char* stream : {".in", ".out", ".err"}) fs::remove(path.string() + stream);
}

pid_t Folder::start(const Words& command, const std::string& input) const {
  for (const char* stream : {".out", ".err"}) fs::remove(path.string() + stream);
  test::write(path.string() + ".in", input);
  Words words = command;
  words[0] = programs_folder() + "/" + words[0];
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);  // otherwise the child would print our buffers again
  const pid_t child = ::fork();
  if (child == 0) {
    const bool ready = ::chdir(path.c_str()) == 0 && std::freopen((path.string() + ".in").c_str(), "r", stdin) &&
                       std::freopen((path.string() + ".out").c_str(), "w", stdout) &&
                       std::freopen((path.string() + ".err").c_str(), "w", stderr);
    if (ready) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

Result Folder::finish(pid_t child) const {
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read(path.string() + ".out"), read(path.string() + ".err"), static_cast<double>(used.ru_maxrss) / 1024};
}

Result Folder::run(const Words& command, const std::string& input) const { return finish(start(command, input)); }

void Folder::write(const std::string& name, const std::string& content) const { test::write(path / name, content); }

bool Folder::empty() const { return fs::is_empty(path); }

std::size_t Folder::files() const {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

void check_refused(const Folder& folder, const Words& command, int code, const std::string& part) {
  const std::size_t files = folder.files();
  const Result r = folder.run(command);
  std::string title;
  for (const std::string& word : command) title += word.substr(0, 40) + " ";
  BOOST_CHECK_MESSAGE(r.code == code, title << "gave " << r.code << ": " << r.err);
  BOOST_CHECK_MESSAGE(r.err.find(part) != std::string::npos, "'" << part << "' is not in: " << r.err);
  BOOST_CHECK_MESSAGE(std::count(r.err.begin(), r.err.end(), '\n') == 1 && r.err.size() < 400,
                      "not one line: " << r.err);
  BOOST_CHECK_MESSAGE(r.out.empty(), title << "printed " << r.out);
  BOOST_CHECK_MESSAGE(folder.files() == files, title << "made a file");
}

}  // namespace test
