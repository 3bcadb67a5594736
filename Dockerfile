# ext4kit in an image of its own.
#
#   docker build -t ext4kit .
#   docker run --rm --network none --user "$(id -u):$(id -g)" \
#       -v /cases/17/disk.img:/evidence/disk.img:ro -v /cases/17/out:/out \
#       ext4kit recover /evidence/disk.img -o /out/recovered
#
# The evidence is mounted read-only; /out is the one place that the program can write to.

FROM python:3.13-slim-trixie AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv --without-pip /opt/ext4kit \
    && pip --python /opt/ext4kit/bin/python install --no-cache-dir '.[all]'

FROM python:3.13-slim-trixie
RUN useradd --create-home examiner && install -d -o examiner /out
COPY --from=build /opt/ext4kit /opt/ext4kit
ENV PATH=/opt/ext4kit/bin:$PATH
USER examiner
WORKDIR /out
ENTRYPOINT ["ext4kit"]
