// A trained network on the report page, where JavaScript computes with it (page/network.js, page/tasks.js).
#pragma once

#include <seppo/nn/modules/positional_encoding.h>
#include <seppo/nn/parameters.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace examples {

// What the page must know besides the parameters.
struct PageNetwork {
  nlohmann::json config;         // of the network: its widths, numbers of layers and so on
  nlohmann::json task;           // {"name": one of page/tasks.js, "vocabulary": ...}
  seppo::Tensor positions = {};  // the table that is added to the inputs, complete, if there is one
};

// The table of an absolute encoding, all of whose rows are computed; undefined for the others.
seppo::Tensor whole_table(const seppo::PositionalEncoding& positions);

// Larger networks are left out of the page: 5 MB.
constexpr std::size_t kMostOnPage = 5'000'000 / sizeof(float);

// {"config", "task", "tensors": [[name, shape], ...], "values"}: `values` are those of all tensors as float32, in
// base64. Null if there are more than kMostOnPage, or if the page does not compute their attention: heads of another
// width than the config says, norms of queries and keys, windows, scales and caps.
nlohmann::json to_json(const PageNetwork& network, const seppo::Parameters& parameters);

// The values of all entries, one after another.
std::vector<seppo::real> values_of_entries(const seppo::Parameters& parameters);

// Numbers as little-endian float32, in base64.
std::string floats_in_base64(std::span<const seppo::real> values);

}  // namespace examples
