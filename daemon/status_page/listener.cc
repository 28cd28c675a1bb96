#include "daemon/status_page/listener.h"

#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <exception>
#include <list>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "daemon/control/network_interface.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr std::size_t kConnectionsMax = 64;
constexpr std::chrono::seconds kRequestTime(5);
constexpr std::chrono::seconds kAnswerTime(5);
constexpr std::chrono::milliseconds kAcceptAgain(100);
constexpr std::uint32_t kHeadBytesMax = 8 * 1024;

std::string_view Text(beast::string_view text) { return {text.data(), text.size()}; }

PageAnswer Plain(int code, std::string text) {
  return {code, "text/plain; charset=utf-8", std::move(text)};
}

// A connection that the loop may end.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void End() = 0;
};
using Connections = std::list<std::weak_ptr<Connection>>;

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// Common data of all connections of a listener.
struct Common {
  Access access;
  PageHandler handler;
  Connections connections;  // The oldest first.
};

PageAnswer AnswerTo(const http::request<http::empty_body>& request, const Common& common) {
  switch (common.access.Check(Text(request[http::field::host]),
                              Text(request[http::field::authorization]))) {
    case AccessVerdict::kNeedsToken:
      return Plain(401,
                   "The job token is needed: as bearer, or as the password of any user name. The "
                   "connection file names the token's file.\n");
    case AccessVerdict::kWrongHost:
      return Plain(403, "Ask by http://127.0.0.1 or http://localhost.\n");
    case AccessVerdict::kAllowed:
      break;
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return Plain(405, "Only GET and HEAD.\n");
  }
  const std::string_view target = Text(request.target());
  return common.handler(target.substr(0, target.find('?')));
}

// A request and its answer. Lives as long as a call of it is under way.
template <typename Stream>
class Exchange final : public Connection, public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  template <typename... More>
  Exchange(Common* common, Tcp::socket socket, More&... more)
      : common_(*common), stream_(std::move(socket), more...) {
    parser_.header_limit(kHeadBytesMax);
    parser_.body_limit(0);
  }
  ~Exchange() override {
    if (place_.has_value()) common_.connections.erase(*place_);
  }

  void Begin(Connections::iterator place) {
    place_ = place;
    Lowest().expires_after(kRequestTime);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (!error) self->Read();
                              });
    } else {
      Read();
    }
  }
  void End() override { Lowest().close(); }

 private:
  PlainStream& Lowest() { return beast::get_lowest_layer(stream_); }

  // Its time has begun with the connection: a byte now and then does not prolong it.
  void Read() {
    http::async_read(stream_, buffer_, parser_,
                     [self = this->shared_from_this()](Error error, std::size_t) {
                       if (!error) return self->Write();
                       if (IsOfParser(error)) {
                         self->Send(Plain(400, "This is not a request that is served here.\n"));
                       }
                     });
  }
  static bool IsOfParser(const Error& error) {
    return error.category() == http::make_error_code(http::error::bad_method).category() &&
           error != http::error::end_of_stream && error != http::error::partial_message;
  }

  void Write() {
    is_head_ = parser_.get().method() == http::verb::head;
    Send(AnswerTo(parser_.get(), common_));
  }

  void Send(PageAnswer answer) {
    answer_.emplace(static_cast<http::status>(answer.code), 11);
    answer_->set(http::field::content_type, answer.content_type);
    answer_->set(http::field::cache_control, "no-store");
    answer_->set("Referrer-Policy", "no-referrer");
    answer_->set("X-Content-Type-Options", "nosniff");
    // Nothing from elsewhere, nothing inline, in no other page's frame.
    answer_->set(
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (answer.code == 401) {
      answer_->set(http::field::www_authenticate, "Basic realm=\"Tidepool job token\"");
    }
    answer_->keep_alive(false);
    const std::size_t bytes = answer.body.size();
    answer_->content_length(bytes);
    if (!is_head_) answer_->body() = std::move(answer.body);
    serializer_.emplace(*answer_);
    serializer_->split(is_head_);
    Lowest().expires_after(kAnswerTime);
    auto then = [self = this->shared_from_this()](Error error, std::size_t) {
      if (!error) self->Leave();
    };
    if (is_head_) {
      http::async_write_header(stream_, *serializer_, std::move(then));
    } else {
      http::async_write(stream_, *serializer_, std::move(then));
    }
  }

  void Leave() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_shutdown([self = this->shared_from_this()](Error) {});
    } else {
      Error ignored;
      stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    }
  }

  Common& common_;
  Stream stream_;
  std::optional<Connections::iterator> place_;
  beast::flat_buffer buffer_{kHeadBytesMax + 4096};
  http::request_parser<http::empty_body> parser_;
  bool is_head_ = false;
  std::optional<http::response<http::string_body>> answer_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
};

}  // namespace

class Listener::Loop {
 public:
  Loop(const ListenerOptions& options, const PageHandler& handler)
      : common_{options.access, handler, {}}, acceptor_(context_), again_(context_) {
    if (options.tls != nullptr) UseTls(*options.tls);
    const Tcp::endpoint endpoint(asio::ip::make_address(options.address),
                                 static_cast<std::uint16_t>(options.port));
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(Tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
  }
  ~Loop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  std::uint32_t port() const { return acceptor_.local_endpoint().port(); }
  bool has_tls() const { return tls_.has_value(); }

  Status Run() {
    Accept();
    return StartThread("the metrics port", &thread_, [this] {
      pthread_setname_np(pthread_self(), "metrics");
      while (!context_.stopped()) {
        try {
          context_.run();
        } catch (const std::exception& error) {
          // An error of a single connection, which is gone with it.
          log::Warn(std::string("metrics listener: ") + error.what());
        }
      }
    });
  }

 private:
  void UseTls(const cluster_file::TlsIdentity& tls) {
    tls_.emplace(asio::ssl::context::tls_server);
    tls_->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
    tls_->use_certificate_chain(asio::buffer(tls.cert));
    tls_->use_private_key(asio::buffer(tls.key), asio::ssl::context::pem);
    if (!tls.mutual) return;
    tls_->add_certificate_authority(asio::buffer(tls.ca));
    tls_->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  }

  void Accept() {
    acceptor_.async_accept([this](Error error, Tcp::socket socket) {
      if (!error) Serve(std::move(socket));
      if (!error) return Accept();
      // Out of descriptors: at once would be in vain.
      again_.expires_after(kAcceptAgain);
      again_.async_wait([this](Error) { Accept(); });
    });
  }

  void Serve(Tcp::socket socket) {
    Connections& all = common_.connections;
    // An ended connection goes when its calls have heard of the end. Until then it must not be the
    // oldest.
    if (all.size() >= kConnectionsMax) {
      if (const auto oldest = all.front().lock()) oldest->End();
      all.splice(all.end(), all, all.begin());
    }
    if (all.size() >= 2 * kConnectionsMax) return;
    if (tls_.has_value()) {
      Begin<TlsStream>(std::move(socket), *tls_);
    } else {
      Begin<PlainStream>(std::move(socket));
    }
  }

  template <typename Stream, typename... More>
  void Begin(Tcp::socket socket, More&... more) {
    auto exchange = std::make_shared<Exchange<Stream>>(&common_, std::move(socket), more...);
    exchange->Begin(common_.connections.insert(common_.connections.end(), exchange));
  }

  // Before the context: its handlers, which go with it, hold exchanges, which use these.
  Common common_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context context_{1};
  Tcp::acceptor acceptor_;
  asio::steady_timer again_;
  std::thread thread_;
};

Listener::Listener() = default;
Listener::~Listener() = default;

Result<std::unique_ptr<Listener>> Listener::Start(ListenerOptions options, PageHandler handler) {
  std::unique_ptr<Listener> listener(new Listener());
  const std::string address = options.address;
  const std::uint32_t port = options.port;
  TP_RETURN_IF_ERROR(ListenOn(
      address, port,
      [&](std::uint32_t at) {
        options.port = at;
        try {
          listener->loop_ = std::make_unique<Loop>(options, handler);
        } catch (const std::exception& error) {
          return Status(StatusCode::kUnavailable,
                        "no metrics at " + address + ": " + std::string(error.what()),
                        "give another --metrics-port, or off");
        }
        return OkStatus();
      },
      "--metrics-port"));
  listener->url_ = (listener->loop_->has_tls() ? "https://" : "http://") +
                   AddressWithPort(address, listener->loop_->port()) + "/";
  TP_RETURN_IF_ERROR(listener->loop_->Run());
  return listener;
}

}  // namespace tidepool::daemon
