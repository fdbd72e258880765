# The image of a recipe, with nsys if it has none. It needs no build context:
#   docker build --build-arg BASE=nvcr.io/nvidia/nemo:26.08 - < gpu.Dockerfile
# `llmbx image build` fills the arguments with the recipe's image; images.lock lists the images and their platforms.
ARG BASE
FROM ${BASE}
ARG BASE
ARG DEVTOOLS=https://developer.download.nvidia.com/devtools/repos
RUN command -v nsys > /dev/null || { \
    . /etc/os-release && \
    repository="${DEVTOOLS}/$ID$(echo "$VERSION_ID" | tr -d .)/$(dpkg --print-architecture)" && \
    apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates curl && \
    curl -fsSL -o /usr/share/keyrings/nvidia-devtools.asc "$repository/nvidia.pub" && \
    echo "deb [signed-by=/usr/share/keyrings/nvidia-devtools.asc] $repository/ /" \
        > /etc/apt/sources.list.d/nvidia-devtools.list && \
    apt-get update && \
    apt-get install -y --no-install-recommends nsight-systems-cli && \
    rm -rf /var/lib/apt/lists/*; }
LABEL org.llmbx.base="${BASE}"
