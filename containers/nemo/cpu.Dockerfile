# The environment megatron-bridge-cpu (lock 4f4bca9a1767) for Python 3.11, for machines without a GPU.
# Made by `llmbx image build`; the context is put together by it.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE}
COPY llmbx.pth /usr/local/lib/python3.11/dist-packages/llmbx.pth
COPY llmbx.pth /usr/local/lib/python3.11/site-packages/llmbx.pth
COPY environment.json /opt/llmbx/environment.json
COPY site /opt/llmbx/site
LABEL org.llmbx.environment="megatron-bridge-cpu" org.llmbx.lock="4f4bca9a1767"
