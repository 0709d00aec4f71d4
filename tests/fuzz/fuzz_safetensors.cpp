// Checkpoint files. Whatever is accepted contains exactly what its header says, and can be written and read back
// unchanged; once the digest is right, any flipped bit is detected. The mutator edits the header as text, and usually
// keeps the length in front of it correct.
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/digest.h>
#include <seppo/nn/io/safetensors.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using fuzz::require;
using seppo::FormatError;
using seppo::SafeTensorsFile;

constexpr std::size_t kPrefix = 8;  // bytes that hold the header's length
const std::string kNoDigest(32, '0');

std::uint64_t header_size(std::string_view file) {
  std::uint64_t size = 0;
  if (file.size() >= kPrefix) std::memcpy(&size, file.data(), kPrefix);
  return size;
}

std::string with_length(std::string_view header, std::string_view data) {
  const std::uint64_t size = header.size();
  std::string file(kPrefix, '\0');
  std::memcpy(file.data(), &size, kPrefix);
  return file.append(header).append(data);
}

fuzz::MemoryFile& memory_file() {
  static fuzz::MemoryFile file;
  return file;
}

// Null if the content is refused.
std::unique_ptr<SafeTensorsFile> open(std::string_view content) {
  std::unique_ptr<SafeTensorsFile> file;
  const std::filesystem::path& path = memory_file().hold(content);
  fuzz::refuses<FormatError>([&] { file = std::make_unique<SafeTensorsFile>(path); });
  return file;
}

bool is_whole(const SafeTensorsFile& file) {
  return !fuzz::refuses<FormatError>([&] { file.verify(); });
}

// Tensors sorted by name, since empty tensors may be in any order.
struct Content {
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::pair<seppo::TensorInfo, std::vector<std::byte>>> tensors;
};

Content content_of(const SafeTensorsFile& file) {
  Content content{file.metadata(), {}};
  content.metadata.erase("seppo.format");
  content.metadata.erase("seppo.digest");
  std::uint64_t bytes = 0;
  for (const seppo::TensorInfo& tensor : file.tensors()) {
    require(tensor.begin == bytes, "the tensors leave a gap or overlap");
    bytes = tensor.end;
    require(bytes <= file.size(), "a tensor ends after the file");
    std::vector<std::byte> values(tensor.bytes());
    file.read(tensor, values);
    const bool is_new = content.tensors.emplace(tensor.name, std::pair(tensor, std::move(values))).second;
    require(is_new, "two tensors have one name");
  }
  return content;
}

void require_equal(const Content& a, const Content& b) {
  require(a.metadata == b.metadata, "the metadata changed");
  const bool same = std::ranges::equal(a.tensors, b.tensors, [](const auto& x, const auto& y) {
    const auto& [info_x, bytes_x] = x.second;
    const auto& [info_y, bytes_y] = y.second;
    return x.first == y.first && info_x.dtype == info_y.dtype && info_x.shape == info_y.shape && bytes_x == bytes_y;
  });
  require(same, "the tensors changed");
}

// The file that the writer produces for this content.
std::string written(const Content& content) {
  static const std::filesystem::path path =
      std::filesystem::path(std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path()) /
      ("fuzz_safetensors-" + std::to_string(::getpid()));
  std::vector<seppo::TensorView> tensors;
  for (const auto& [name, tensor] : content.tensors)
    tensors.push_back({name, tensor.first.dtype, tensor.first.shape, tensor.second});
  seppo::write_safetensors(path, content.metadata, tensors);
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return bytes;
}

void require_round_trip(const Content& content) {
  const std::string bytes = written(content);
  const std::unique_ptr<SafeTensorsFile> file = open(bytes);
  require(file != nullptr, "what was written is refused");
  require(file->digest() && is_whole(*file), "what was written has another digest");
  const Content again = content_of(*file);
  require_equal(content, again);
  require(written(again) == bytes, "written once more, the bytes differ");
}

std::string digest_of(std::string_view bytes) {
  seppo::Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

// The file with the correct digests; nothing if its own do not occur exactly once.
std::optional<std::string> mended(std::string file, const SafeTensorsFile& read) {
  const std::string& digits = read.metadata().at("seppo.digest");
  const std::size_t at = file.find(digits);
  if (at == std::string::npos || file.find(digits, at + 1) != std::string::npos) return std::nullopt;
  const std::size_t data = kPrefix + header_size(file);
  file.replace(at, kNoDigest.size(), kNoDigest);
  if (digits.size() == kNoDigest.size() && read.metadata().at("seppo.format") == "1")
    return file.replace(at, kNoDigest.size(), digest_of(file));
  std::size_t place = at;
  for (const seppo::TensorInfo& tensor : read.tensors())
    file.replace(place += kNoDigest.size(), kNoDigest.size(),
                 digest_of(std::string_view(file).substr(data + tensor.begin, tensor.bytes())));
  return file.replace(at, kNoDigest.size(), digest_of(std::string_view(file).substr(0, data)));
}

void require_damage_is_noticed(std::string file, const SafeTensorsFile& read) {
  const std::optional<std::string> whole = mended(file, read);
  if (!whole) return;
  const std::unique_ptr<SafeTensorsFile> opened = open(*whole);
  require(opened && is_whole(*opened), "the right digest is refused");
  const std::size_t bit = std::hash<std::string>{}(file) % (8 * whole->size());
  file = *whole;
  file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
  const std::unique_ptr<SafeTensorsFile> damaged = open(file);
  require(!damaged || !is_whole(*damaged), "a flipped bit was not noticed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::unique_ptr<SafeTensorsFile> file = open(bytes);
  if (!file) return 0;
  const Content content = content_of(*file);
  const bool whole = is_whole(*file);
  require(whole || file->digest(), "a file without a digest cannot be damaged");
  if (file->digest()) require_damage_is_noticed(std::string(bytes), *file);
  require_round_trip(content);
  return 0;
}

namespace {

const std::vector<std::string> kPieces{"0",
                                       "1",
                                       "-1",
                                       "2",
                                       "3",
                                       "8",
                                       "16",
                                       "1.0",
                                       "1e3",
                                       "01",
                                       "9007199254740992",
                                       "9007199254740993",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "4294967296",
                                       "2305843009213693953",
                                       "\"F32\"",
                                       "\"F64\"",
                                       "\"BF16\"",
                                       "\"U8\"",
                                       "\"F4\"",
                                       "\"F6_E2M3\"",
                                       "\"dtype\":",
                                       "\"shape\":",
                                       "\"data_offsets\":",
                                       "\"__metadata__\":",
                                       "\"seppo.digest\":",
                                       "\"seppo.format\":",
                                       "\"" + kNoDigest + "\"",
                                       "[]",
                                       "[0,0]",
                                       "{}",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "\"",
                                       "\"\"",
                                       "null",
                                       "true",
                                       "\\u0061",
                                       "\\ud800",
                                       "\\u0000",
                                       "\xc3\xa4",
                                       "\xed\xa0\x80",
                                       " ",
                                       "\n",
                                       "\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}"};

using Random = std::minstd_rand;  // small state: seeding a larger one takes longer than reading a file

// Begin and end of a piece of the text that starts with one of these characters and has a plausible length.
std::pair<std::size_t, std::size_t> piece_of(const std::string& text, std::string_view starts, Random& random) {
  if (text.empty()) return {0, 0};
  const std::size_t begin = std::min(text.find_first_of(starts, random() % text.size()), text.size());
  std::size_t end = begin;
  if (starts[0] == '0')
    end = std::min(text.find_first_not_of(starts, begin), text.size());
  else if (begin < text.size())
    end = std::min(text.find_first_of(",}]", begin + 1 + random() % 64), text.size());
  return {begin, end};
}

void edit(std::string& header, std::string& data, std::size_t max_size, Random& random) {
  const std::string& piece = kPieces[random() % kPieces.size()];
  const std::size_t anywhere = random() % (header.size() + 1);
  switch (random() % 8) {
    case 0: {  // replace a number
      const auto [begin, end] = piece_of(header, "0123456789", random);
      header.replace(begin, end - begin, random() % 2 ? piece : std::to_string(random() % 64));
      break;
    }
    case 1:
      header.insert(anywhere, piece);
      break;
    case 2: {  // duplicate or move an entry
      const auto [begin, end] = piece_of(header, "\"{[", random);
      const std::string copy = header.substr(begin, end - begin);
      if (random() % 2) header.erase(begin, end - begin);
      header.insert(random() % (header.size() + 1), "," + copy);
      break;
    }
    case 3: {  // remove or replace an entry
      const auto [begin, end] = piece_of(header, "\"{[,", random);
      header.replace(begin, end - begin, random() % 2 ? piece : "");
      break;
    }
    case 4:
      data.resize(random() % 2 ? data.size() / 2 : data.size() + 1 + random() % 16, '\1');
      break;
    case 5:
      header.resize(anywhere);
      break;
    default:
      header.resize(std::max(header.size(), std::size_t{1}) + 16, ' ');
      header.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(header.data()), header.size() - 16,
                                     std::min(header.size(), max_size)));
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  Random random(seed);
  const std::string_view file(reinterpret_cast<const char*>(bytes), size);
  if (size < kPrefix || random() % 16 == 0) return LLVMFuzzerMutate(bytes, size, max_size);
  const std::string_view rest = file.substr(kPrefix);
  const std::size_t cut = std::min<std::uint64_t>(header_size(file), rest.size());
  std::string header(rest.substr(0, cut)), data(rest.substr(cut));
  for (unsigned edits = 1 + random() % 3; edits > 0; --edits) edit(header, data, max_size, random);
  std::string changed = with_length(header, data);
  if (random() % 16 == 0) changed[random() % kPrefix] = static_cast<char>(random());
  changed.resize(std::min(changed.size(), max_size));
  std::memcpy(bytes, changed.data(), changed.size());
  return changed.size();
}
