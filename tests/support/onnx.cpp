// Messages of protobuf, read generically, and what onnx.proto3 calls their fields.
#include "support/onnx.h"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace test {
namespace {

// A field's value: a number, or bytes.
struct Field {
  std::uint64_t number = 0;
  std::string_view bytes = {};
};
using Message = std::multimap<std::uint64_t, Field>;

std::uint64_t varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    BOOST_REQUIRE(!from.empty());
    const auto byte = static_cast<unsigned char>(from[0]);
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  BOOST_FAIL("a number has more than ten bytes");
  return 0;
}

std::string_view take(std::string_view& from, std::size_t size) {
  BOOST_REQUIRE_LE(size, from.size());
  const std::string_view taken = from.substr(0, size);
  from.remove_prefix(size);
  return taken;
}

Message parse(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::uint64_t key = varint(bytes);
    Field field;
    if (key % 8 == 0)
      field.number = varint(bytes);
    else if (key % 8 == 2)
      field.bytes = take(bytes, varint(bytes));
    else if (key % 8 == 5)
      field.bytes = take(bytes, 4);
    else
      BOOST_FAIL("field " << key / 8 << " is stored in way " << key % 8);
    message.emplace(key / 8, field);
  }
  return message;
}

std::vector<Field> all(const Message& message, std::uint64_t field) {
  std::vector<Field> values;
  const auto [begin, end] = message.equal_range(field);
  for (auto at = begin; at != end; ++at) values.push_back(at->second);
  return values;
}

Field one(const Message& message, std::uint64_t field) {
  BOOST_REQUIRE_EQUAL(message.count(field), 1u);
  return message.find(field)->second;
}

std::string text(const Message& message, std::uint64_t field) { return std::string(one(message, field).bytes); }

template <class T>
std::vector<double> numbers(std::string_view bytes) {
  BOOST_REQUIRE_EQUAL(bytes.size() % sizeof(T), 0u);
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    values.push_back(static_cast<double>(value));
  }
  return values;
}

OnnxArray array_of(const Message& tensor) {
  std::vector<int> shape;
  for (const Field& size : all(tensor, 1)) shape.push_back(static_cast<int>(size.number));
  OnnxArray array(shape);
  const std::string_view bytes = one(tensor, 9).bytes;
  switch (one(tensor, 2).number) {
    case 1:
      array.v = numbers<float>(bytes);
      break;
    case 7:
      array.v = numbers<std::int64_t>(bytes);
      break;
    case 11:
      array.v = numbers<double>(bytes);
      break;
    default:
      BOOST_FAIL("a tensor has another type");
  }
  BOOST_REQUIRE_EQUAL(array.v.size(), OnnxArray::count(shape));
  return array;
}

std::vector<double> attribute_of(const Message& attribute) {
  constexpr std::uint64_t kFloat = 1, kInt = 2, kInts = 7;
  const auto integer = [](const Field& field) { return static_cast<double>(static_cast<std::int64_t>(field.number)); };
  const std::uint64_t type = one(attribute, 20).number;
  if (type == kFloat) return numbers<float>(one(attribute, 2).bytes);
  if (type == kInt) return {integer(one(attribute, 3))};
  BOOST_REQUIRE_EQUAL(type, kInts);
  std::vector<double> values;
  for (const Field& field : all(attribute, 8)) values.push_back(integer(field));
  return values;
}

OnnxNode node_of(const Message& message) {
  OnnxNode node{.type = text(message, 4), .name = text(message, 3), .inputs = {}, .outputs = {}, .attributes = {}};
  for (const Field& input : all(message, 1)) node.inputs.emplace_back(input.bytes);
  for (const Field& output : all(message, 2)) node.outputs.emplace_back(output.bytes);
  for (const Field& field : all(message, 5)) {
    const Message attribute = parse(field.bytes);
    node.attributes[text(attribute, 1)] = attribute_of(attribute);
  }
  return node;
}

// The name and the sizes of an input or output.
std::pair<std::string, std::vector<std::string>> port_of(const Message& message) {
  const Message tensor = parse(one(parse(one(message, 2).bytes), 1).bytes);
  std::vector<std::string> sizes;
  for (const Field& field : all(parse(one(tensor, 2).bytes), 1)) {
    const Message size = parse(field.bytes);
    sizes.push_back(size.contains(1) ? std::to_string(one(size, 1).number) : text(size, 2));
  }
  return {text(message, 1), sizes};
}

}  // namespace

OnnxFile read_onnx(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const Message model = parse(bytes);
  const Message graph = parse(one(model, 7).bytes);
  OnnxFile file;
  file.ir_version = static_cast<std::int64_t>(one(model, 1).number);
  file.operator_set = static_cast<std::int64_t>(one(parse(one(model, 8).bytes), 2).number);
  file.producer = text(model, 2);
  for (const Field& field : all(model, 14)) {
    const Message note = parse(field.bytes);
    file.notes[text(note, 1)] = text(note, 2);
  }
  for (const Field& field : all(graph, 1)) file.nodes.push_back(node_of(parse(field.bytes)));
  for (const Field& field : all(graph, 5)) {
    const Message tensor = parse(field.bytes);
    BOOST_REQUIRE(file.constants.emplace(text(tensor, 8), array_of(tensor)).second);
  }
  for (const Field& field : all(graph, 11)) file.inputs.insert(port_of(parse(field.bytes)));
  for (const Field& field : all(graph, 12)) file.outputs.insert(port_of(parse(field.bytes)));
  return file;
}

}  // namespace test
