# An image with kvd, kvctl and the SDK's library, built from this checkout; also by buildah or podman, without a daemon.
#
#   docker build -t tidepool .
#   docker run --rm --network host tidepool                  # one node on loopback
#   docker run --rm --network host --entrypoint kvctl tidepool version
#
# UCX publishes the addresses that it sees: with a network of its own a container needs an address that
# the other nodes reach (kvd --interface eth0). Programs in other containers of the machine reach a daemon by shared memory if
# both have the folder of its sockets at the same path and are of the same user:
#
#   docker run -v $PWD/run:/run/tidepool -e XDG_RUNTIME_DIR=/run/tidepool ...     # mode 0700, of the container's user
#
# and by UCX if not. tests/container/run does all of this.
FROM debian:bookworm-slim AS build
WORKDIR /src
# The package list first, so that a change of the sources does not install anything again.
COPY deploy/install-packages deploy/packages-build.txt deploy/
RUN apt-get update && deploy/install-packages deploy/packages-build.txt && rm -rf /var/lib/apt/lists/*
COPY . .
# A cache of objects may be mounted at /root/.cache/ccache; these make those of other folders fit.
ENV CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=true
RUN cmake --preset package -DCMAKE_INSTALL_PREFIX=/usr/local \
    && cmake --build build/package \
    && DESTDIR=/out cmake --install build/package --strip

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
