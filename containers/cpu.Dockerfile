# The packages of an environment that llmbx builds from its lock, for machines without a GPU.
# `llmbx image build` fills the arguments and creates the build context; README.md explains both.
ARG BASE
FROM ${BASE}
ARG PYTHON
ARG ENVIRONMENT
ARG LOCK
COPY llmbx.pth /usr/local/lib/python${PYTHON}/dist-packages/llmbx.pth
COPY llmbx.pth /usr/local/lib/python${PYTHON}/site-packages/llmbx.pth
COPY environment.json /opt/llmbx/environment.json
COPY site /opt/llmbx/site
LABEL org.llmbx.environment="${ENVIRONMENT}" org.llmbx.lock="${LOCK}"
