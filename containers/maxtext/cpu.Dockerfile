# The environment maxtext-cpu (lock 917a3b4ce24e) for Python 3.12, for machines without a GPU.
# Made by `llmbx image build`; the context is put together by it.
ARG BASE=docker.io/library/python:3.12-slim-bookworm
FROM ${BASE}
COPY llmbx.pth /usr/local/lib/python3.12/dist-packages/llmbx.pth
COPY llmbx.pth /usr/local/lib/python3.12/site-packages/llmbx.pth
COPY environment.json /opt/llmbx/environment.json
COPY site /opt/llmbx/site
LABEL org.llmbx.environment="maxtext-cpu" org.llmbx.lock="917a3b4ce24e"
