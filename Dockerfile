# The image of kapiserver: `docker build -t kapiserver .`, or with extras, `--build-arg EXTRAS=kms,tracing`.
# python:3.13-slim has an interpreter that was compiled with profile-guided and link-time optimization.
FROM python:3.13-slim AS build
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY kapiserver ./kapiserver
RUN python -m venv --without-pip /opt/kapiserver \
    && pip --python /opt/kapiserver/bin/python install --no-cache-dir "kapiserver[${EXTRAS}] @ file:///source"

FROM python:3.13-slim
COPY --from=build /opt/kapiserver /opt/kapiserver
RUN useradd --system --uid 10001 --home-dir /data kapiserver \
    && install -d -o 10001 -m 0700 /data
ENV PATH=/opt/kapiserver/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 6443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-m", "kapiserver.apiserver.serving.healthcheck", "https://127.0.0.1:6443/readyz"]
ENTRYPOINT ["kapiserver"]
CMD ["serve", "--bind-address=0.0.0.0", "--data-dir=/data"]
