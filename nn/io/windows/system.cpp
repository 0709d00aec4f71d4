// Windows has no exchange of names.
#include "../system.h"

#include <io.h>
#include <algorithm>
#include <cerrno>

namespace seppo {
inline namespace SEPPO_ABI {

std::ptrdiff_t read_standard_input(void* data, std::size_t size) {
  return _read(0, data, static_cast<unsigned>(std::min(size, std::size_t{1} << 30)));
}

bool exchange_names(const std::filesystem::path&, const std::filesystem::path&) {
  errno = ENOSYS;
  return false;
}

std::tm local_time(std::time_t time) {
  std::tm local{};
  ::localtime_s(&local, &time);
  return local;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
