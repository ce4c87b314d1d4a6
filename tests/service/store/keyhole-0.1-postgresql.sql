CREATE TABLE meta (
    version INTEGER NOT NULL
);

CREATE TABLE streams (
    id BIGSERIAL NOT NULL,
    name TEXT NOT NULL,
    blueprint TEXT NOT NULL,
    created FLOAT(53) NOT NULL,
    archived FLOAT(53),
    version BIGINT NOT NULL,
    predicted BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    misses BIGINT NOT NULL,
    size FLOAT(53) NOT NULL,
    expired BIGINT NOT NULL,
    bound_broken BIGINT NOT NULL,
    sweep FLOAT(53) NOT NULL,
    recent BYTEA NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);

CREATE TABLE tokens (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    digest BYTEA NOT NULL,
    created FLOAT(53) NOT NULL,
    revoked FLOAT(53),
    PRIMARY KEY (id)
);

CREATE TABLE feedback (
    stream BIGINT NOT NULL,
    version BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at FLOAT(53) NOT NULL,
    answer TEXT NOT NULL,
    missed BOOLEAN NOT NULL,
    score FLOAT(53),
    size FLOAT(53) NOT NULL,
    PRIMARY KEY (stream, version),
    UNIQUE (stream, number),
    FOREIGN KEY(stream) REFERENCES streams (id)
);

CREATE TABLE marks (
    stream BIGINT NOT NULL,
    version BIGINT NOT NULL,
    at FLOAT(53) NOT NULL,
    answered BIGINT NOT NULL,
    misses BIGINT NOT NULL,
    size FLOAT(53) NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (stream, version),
    FOREIGN KEY(stream) REFERENCES streams (id)
);

CREATE TABLE open (
    stream BIGINT NOT NULL,
    number BIGINT NOT NULL,
    expires FLOAT(53) NOT NULL,
    memo BYTEA NOT NULL,
    PRIMARY KEY (stream, number),
    FOREIGN KEY(stream) REFERENCES streams (id)
);

CREATE TABLE rounds (
    stream BIGINT NOT NULL,
    number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    at FLOAT(53) NOT NULL,
    threshold FLOAT(53) NOT NULL,
    size FLOAT(53) NOT NULL,
    output BYTEA NOT NULL,
    labels TEXT,
    key TEXT,
    PRIMARY KEY (stream, number),
    FOREIGN KEY(stream) REFERENCES streams (id)
);

CREATE UNIQUE INDEX rounds_key ON rounds (stream, key) WHERE key IS NOT NULL;
