# The two commands of the README in a container:
#
#   docker build --tag logit-correction .
#   docker run --rm --volume "$PWD/quickstart:/work/quickstart" logit-correction quickstart --out quickstart
#
#   docker build --tag logit-correction-tests --target tests .
#   docker run --rm logit-correction-tests
#
# With a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128, and `docker run --gpus all`.
FROM python:3.12-slim AS base
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/venv/bin:$PATH
RUN python3 -m venv /opt/venv \
    && pip install 'torch>=2.7' 'torchvision>=0.22' --index-url "$TORCH_INDEX" \
    && useradd --create-home --uid 1000 user \
    && install --directory --owner user /work
WORKDIR /src
COPY . .

FROM base AS tests
RUN pip install --editable '.[test]' --editable ./lab && chown --recursive user /src
USER 1000
CMD ["python", "-m", "pytest", "-n", "2"]

FROM base AS package
RUN pip install .
USER 1000
WORKDIR /work
ENTRYPOINT ["logit-correction"]
CMD ["--help"]
