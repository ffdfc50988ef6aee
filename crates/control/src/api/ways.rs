//! The routing table: each way to ask with who may come it, said once. What `guard` asks for and what the description of
//! the API says about it both come from here.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder};

use super::House;
use super::actor::Least;

/// One way to ask: a method of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub method: Method,
    pub path: &'static str,
    pub least: Least,
}

/// Ways with their handlers.
#[derive(Default)]
pub(super) struct Ways {
    router: Router<House>,
    ways: Vec<Way>,
}

impl Ways {
    pub fn get<H, T>(self, path: &'static str, least: Least, handler: H) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.way(Method::GET, MethodFilter::GET, path, least, handler)
    }

    pub fn post<H, T>(self, path: &'static str, least: Least, handler: H) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.way(Method::POST, MethodFilter::POST, path, least, handler)
    }

    pub fn put<H, T>(self, path: &'static str, least: Least, handler: H) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.way(Method::PUT, MethodFilter::PUT, path, least, handler)
    }

    pub fn patch<H, T>(self, path: &'static str, least: Least, handler: H) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.way(Method::PATCH, MethodFilter::PATCH, path, least, handler)
    }

    pub fn delete<H, T>(self, path: &'static str, least: Least, handler: H) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.way(Method::DELETE, MethodFilter::DELETE, path, least, handler)
    }

    fn way<H, T>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &'static str,
        least: Least,
        handler: H,
    ) -> Ways
    where
        H: Handler<T, House>,
        T: 'static,
    {
        self.ways.push(Way { method, path, least });
        Ways { router: self.router.route(path, on(filter, handler)), ways: self.ways }
    }

    /// What leads to the handlers, and who may come each way.
    pub fn into_parts(self) -> (Router<House>, Table) {
        let mut table: HashMap<_, Vec<_>> = HashMap::new();
        for way in &self.ways {
            table.entry(way.path).or_default().push((way.method.clone(), way.least));
        }
        (self.router, Table(Arc::new(table)))
    }

    /// All of them, in order.
    pub fn list(&self) -> &[Way] {
        &self.ways
    }
}

/// Who may come which way.
#[derive(Clone)]
pub(super) struct Table(Arc<HashMap<&'static str, Vec<(Method, Least)>>>);

impl Table {
    /// Who may come at least; nothing where no handler is.
    pub fn least(&self, method: &Method, path: &str) -> Option<Least> {
        // A HEAD is answered by the handler of GET.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let ways = self.0.get(path)?;
        ways.iter().find(|(other, _)| other == method).map(|(_, least)| *least)
    }
}

/// Writes into the description who may come each way, and how he shows who he is.
pub(super) fn describe(document: &mut OpenApi, ways: &[Way]) {
    let components = document.components.get_or_insert_default();
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token, as `fels token create` makes it. On the unix socket none is needed."))
        .build();
    components.security_schemes.insert("token".to_owned(), SecurityScheme::Http(token));
    let cookie = ApiKeyValue::with_description(
        "__Host-fels",
        "The cookie that `/v1/login` sets; `fels` without TLS. With it every change needs `X-CSRF-Token`, as `/v1/me` tells it.",
    );
    components.security_schemes.insert("session".to_owned(), SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    for way in ways {
        let item = document.paths.paths.get_mut(way.path);
        let operation = item.and_then(|item| match way.method {
            Method::GET => item.get.as_mut(),
            Method::POST => item.post.as_mut(),
            Method::PUT => item.put.as_mut(),
            Method::PATCH => item.patch.as_mut(),
            Method::DELETE => item.delete.as_mut(),
            _ => None,
        });
        if let Some(operation) = operation {
            secure(operation, way.least);
        }
    }
}

fn secure(operation: &mut Operation, least: Least) {
    let by = |scheme: &str| SecurityRequirement::new(scheme, Vec::<String>::new());
    let needed = match least {
        Least::Anybody => Vec::new(),
        // Nothing is an alternative, too.
        Least::Near => vec![SecurityRequirement::default(), by("token"), by("session")],
        Least::Role(_) | Least::Own => vec![by("token"), by("session")],
    };
    operation.security = Some(needed);
    // What is derived from a type is said to be JSON of any kind.
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && status.starts_with(['4', '5'])
            && let Some(problem) = response.content.shift_remove("application/json")
        {
            response.content.insert("application/problem+json".to_owned(), problem);
        }
    }
    let extensions = operation.extensions.get_or_insert_default();
    extensions.insert("x-least-role".to_owned(), least.name().into());
    for (status, says) in [("401", "Nobody knows who asks."), ("403", "Who asks may not.")] {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new().description(says).content("application/problem+json", content);
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| response.build().into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::router::{document, ways};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_way_is_described_with_who_may_come_it() {
        let document = serde_json::to_value(document()).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                described.insert((path.clone(), method.to_uppercase()));
                assert!(operation["security"].is_array(), "{method} {path}");
                assert!(operation["x-least-role"].is_string(), "{method} {path}");
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let kinds = response["content"].as_object().map(|kinds| kinds.keys().collect::<Vec<_>>());
                    let is_problem = kinds.is_some_and(|kinds| kinds == ["application/problem+json"]);
                    assert_eq!(is_problem, !status.starts_with('2'), "{method} {path} {status}");
                }
            }
        }
        let ways = ways();
        let listed: BTreeSet<_> =
            ways.list().iter().map(|way| (way.path.to_owned(), way.method.to_string())).collect();
        assert_eq!(listed, described);
        assert_eq!(listed.len(), ways.list().len(), "one is there twice");
    }

    #[test]
    fn what_only_looks_needs_no_more_than_a_viewer_and_changes_more() {
        let (_, table) = ways().into_parts();
        let least = |method: Method, path| table.least(&method, path).map(Least::name);
        assert_eq!(least(Method::GET, "/v1/pools"), Some("viewer"));
        assert_eq!(least(Method::HEAD, "/v1/pools"), Some("viewer"));
        assert_eq!(least(Method::POST, "/v1/pools/{pool}/scrub"), Some("operator"));
        assert_eq!(least(Method::PUT, "/v1/pools"), None);
        assert_eq!(least(Method::GET, "/v1/none"), None);
        for way in ways().list() {
            // Going changes nothing but one's own session.
            let changes = way.method != Method::GET && way.path != "/v1/logout";
            assert!(!changes || way.least != super::super::actor::VIEWER, "{way:?}");
        }
    }
}
