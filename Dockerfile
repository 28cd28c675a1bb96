# An image with kvd and kvctl, built from this checkout.
#
#   docker build -t tidepool .
#   docker run --rm --network host tidepool                  # one node on loopback
#   docker run --rm --network host --entrypoint kvctl tidepool version
#
# The data path needs the host's network: UCX publishes the addresses that it sees.
FROM debian:bookworm-slim AS build
WORKDIR /src
# The package list first, so that a change of the sources does not install anything again.
COPY deploy/install-packages deploy/packages.txt deploy/
RUN apt-get update && deploy/install-packages && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DTIDEPOOL_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr/local \
    && cmake --build build/release \
    && DESTDIR=/out cmake --install build/release --strip

FROM debian:bookworm-slim
COPY deploy/install-packages deploy/packages-runtime.txt /tmp/deploy/
RUN apt-get update && /tmp/deploy/install-packages /tmp/deploy/packages-runtime.txt \
    && rm -rf /var/lib/apt/lists/* /tmp/deploy \
    && useradd --system --create-home --shell /usr/sbin/nologin tidepool
COPY --from=build /out/usr/local /usr/local
RUN ldconfig
USER tidepool
WORKDIR /home/tidepool
STOPSIGNAL SIGTERM
ENTRYPOINT ["kvd"]
