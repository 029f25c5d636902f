# The whole program as one image: Envoy, the workers, the command line. Build it with any builder, no BuildKit needed:
#
#   docker build -t extproc:0.1.0 .
#   docker run --rm --read-only --tmpfs /run/extproc:uid=10001,gid=10001,mode=0700 \
#       -v ./gateway.yaml:/etc/extproc/config.yaml:ro -p 127.0.0.1:10000:10000 extproc:0.1.0
#
# docs/deployment.md explains the configuration for a container, and the drain.

# Pin it by digest in your own builds: --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

# ------------------------------------------------------------------------------------------------------------- build
FROM ${PYTHON_IMAGE} AS build

# A mirror of the package index, and pinned versions: --build-arg PIP_CONSTRAINT=https://.../constraints.txt
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CONSTRAINT

WORKDIR /src
RUN ["python3", "-m", "venv", "--without-pip", "/opt/extproc"]

# Dependencies are a layer of their own, which a change of the program leaves unchanged.
COPY pyproject.toml ./
RUN ["python3", "-c", "import pathlib, tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
     pathlib.Path('requirements.txt').write_text('\\n'.join(project['dependencies']))"]
RUN ["python3", "-m", "pip", "--python", "/opt/extproc/bin/python", "install", "--no-cache-dir", "--no-compile", \
     "-r", "requirements.txt"]

COPY README.md LICENSE ./
COPY extproc ./extproc
RUN ["python3", "-m", "pip", "--python", "/opt/extproc/bin/python", "install", "--no-cache-dir", "--no-compile", \
     "--no-deps", "."]

# The file system will be read-only, so Python compiles now. Checked by content, not by time: the same on every machine.
RUN ["/opt/extproc/bin/python", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", \
     "/opt/extproc/lib"]

# --------------------------------------------------------------------------------------------------------------- run
FROM ${PYTHON_IMAGE}

ARG PYTHON_IMAGE
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="extproc" \
      org.opencontainers.image.description="Lets any LLM client talk to any LLM provider, through Envoy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"

# The only writable place: sockets, Envoy's configuration with its keys, metrics. A tmpfs in production.
RUN ["useradd", "--system", "--uid", "10001", "--user-group", "--no-create-home", "--home-dir", "/run/extproc", \
     "--shell", "/usr/sbin/nologin", "extproc"]
RUN ["install", "-d", "-o", "extproc", "-g", "extproc", "-m", "0700", "/run/extproc"]
COPY --from=build /opt/extproc /opt/extproc

ENV PATH=/opt/extproc/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/run/extproc

# A number, so Kubernetes can verify that it is not root.
USER 10001:10001
WORKDIR /run/extproc

# Clients; metrics and health (admin: 0.0.0.0:9902); a worker (serve).
EXPOSE 10000 9902 50051

# `up` and `serve` end after the running responses; a second signal ends them at once.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["extproc", "ready"]

ENTRYPOINT ["extproc"]
CMD ["up", "--config", "/etc/extproc/config.yaml"]
