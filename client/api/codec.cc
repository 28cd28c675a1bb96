// Code of the codecs that need not be a template: names, messages, escaping.
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "tidepool/codec.h"
#include "tidepool/key_placement.h"
#include "tidepool/ordered_codec.h"

namespace tidepool::internal {

std::string Demangled(const char* mangled) {
  int failed = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &failed);
  std::string name(text == nullptr ? mangled : text);
  std::free(text);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = name.find(kAnonymous); at != std::string::npos;
       at = name.find(kAnonymous)) {
    name.erase(at, kAnonymous.size());
  }
  return name;
}

Status NotA(const std::string& type, std::size_t bytes) {
  return Status(StatusCode::kFailedPrecondition,
                std::to_string(bytes) + " bytes were read that are no '" + type + "'",
                "another program has written them: read them with a BytesMap");
}

void EndForIncompleteMessage(const std::string& type) {
  std::fprintf(stderr, "tidepool: a '%s' that lacks required fields was to be stored\n",
               type.c_str());
  std::abort();
}

void AppendEscaped(std::string_view text, std::string* out) {
  for (;;) {
    const std::size_t zero = text.find('\0');
    out->append(text.substr(0, zero));
    if (zero == std::string_view::npos) break;
    out->append("\0\xff", 2);
    text.remove_prefix(zero + 1);
  }
  out->append("\0\0", 2);
}

bool TakeEscaped(std::string_view* rest, std::string* text) {
  text->clear();
  for (;;) {
    const std::size_t zero = rest->find('\0');
    if (zero == std::string_view::npos || zero + 1 == rest->size()) return false;
    const char next = (*rest)[zero + 1];
    if (next != '\0' && next != '\xff') return false;
    text->append(rest->substr(0, zero));
    rest->remove_prefix(zero + 2);
    if (next == '\0') return true;
    text->push_back('\0');
  }
}

void AppendTag(std::string_view tag, std::string* out) {
  out->push_back('{');
  // "{}" is no tag. An empty tag is written in a form that no other tag has.
  if (tag.empty()) out->push_back('%');
  for (const char c : tag) {
    if (c == '}') {
      out->append("%7D");
    } else if (c == '%') {
      out->append("%25");
    } else {
      out->push_back(c);
    }
  }
  out->push_back('}');
}

void AppendTag(std::uint64_t tag, std::string* out) {
  char text[24];
  std::snprintf(text, sizeof text, "{%llx}", static_cast<unsigned long long>(tag));
  out->append(text);
}

bool SkipTag(std::string_view* key) {
  if (key->empty() || key->front() != '{') return false;
  const std::size_t end = key->find('}');
  if (end == std::string_view::npos) return false;
  key->remove_prefix(end + 1);
  return true;
}

}  // namespace tidepool::internal
