FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY kapiserver ./kapiserver
RUN python -m venv /opt/kapiserver && /opt/kapiserver/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/kapiserver /opt/kapiserver
RUN useradd --system --uid 10001 --home-dir /data kapiserver \
    && install -d -o kapiserver -m 0700 /data
ENV PATH=/opt/kapiserver/bin:$PATH PYTHONUNBUFFERED=1
USER kapiserver
WORKDIR /data
VOLUME /data
EXPOSE 6443
STOPSIGNAL SIGTERM
ENTRYPOINT ["kapiserver"]
CMD ["serve", "--bind-address=0.0.0.0", "--data-dir=/data"]
