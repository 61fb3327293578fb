# A machine for the book, on which every command of README.md works. On its own:
#     docker build -t my-book . && docker run --rm -p 8000:8000 my-book
# In an editor .devcontainer/devcontainer.json takes the first stage, with the checkout mounted in it.
FROM python:3.12-bookworm AS machine
# What `make` installs on Debian where it is missing; make and git are in the image.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      bubblewrap chromium g++ npm && rm -rf /var/lib/apt/lists/*
# The checkout may belong to another user than the container's root.
RUN git config --system --add safe.directory '*'
# torch's build without CUDA; and a page that is served here is read from outside.
ENV UV_TORCH_BACKEND=cpu BIND=0.0.0.0 PORT=8000 OPEN=0
EXPOSE 8000

FROM machine
WORKDIR /book
COPY . .
RUN make env
CMD ["make", "book"]
