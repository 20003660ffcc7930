"""Broker settings about TLS, SASL and delegation tokens.  See `tidelog.config.setting`."""

SECURITY = """
allow.everyone.if.no.acl.found boolean false built unlisted
  With an authorizer: whether everybody may use a resource that no ACL names.
delegation.token.expiry.check.interval.ms long 3600000 1.. built
  How often expired delegation tokens are looked for.
delegation.token.expiry.time.ms long 86400000 1.. built
  How long a delegation token is valid before it must be renewed.
delegation.token.max.lifetime.ms long 604800000 1.. built
  How long a delegation token can be renewed at most.
delegation.token.secret.key password null built
  Key that signs delegation tokens, the same on every broker; without it there are none.
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic n/a:policies
  Class that tells who a connection belongs to.
sasl.client.callback.handler.class class null n/a:plug-in
  Class of the callback on the connecting side.
sasl.enabled.mechanisms list GSSAPI built dynamic
  SASL mechanisms that clients may use.
sasl.jaas.config password null built dynamic
  Login context, in JAAS syntax.
sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic n/a:kinit
  Path of the kinit command.
sasl.kerberos.min.time.before.relogin long 60000 dynamic n/a:keytab-tickets
  Least time between two Kerberos logins.
sasl.kerberos.principal.to.local.rules list DEFAULT built dynamic
  Rules that turn Kerberos principals into short names.
sasl.kerberos.service.name string null built dynamic
  Kerberos name of the brokers.
sasl.kerberos.ticket.renew.jitter double 0.05 dynamic n/a:keytab-tickets
  Random share added to the renewal time of a Kerberos ticket.
sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic n/a:keytab-tickets
  Share of a Kerberos ticket's life after which it is renewed.
sasl.login.callback.handler.class class null n/a:plug-in
  Class of the login callback.
sasl.login.class class null n/a:plug-in
  Class that logs in.
sasl.login.connect.timeout.ms int null 1.. built
  How long connecting to the token provider may take.
sasl.login.read.timeout.ms int null 1.. built
  How long reading from the token provider may take.
sasl.login.refresh.buffer.seconds short 300 dynamic built
  Time kept between a token's renewal and its end.
sasl.login.refresh.min.period.seconds short 60 dynamic built
  Least time between two renewals of a token.
sasl.login.refresh.window.factor double 0.8 dynamic built
  Share of a token's life after which it is renewed.
sasl.login.refresh.window.jitter double 0.05 dynamic built
  Random share added to the renewal time of a token.
sasl.login.retry.backoff.max.ms long 10000 built
  Longest pause before the token provider is asked again.
sasl.login.retry.backoff.ms long 100 built
  First pause before the token provider is asked again.
sasl.mechanism.controller.protocol string GSSAPI n/a:controller-login
  SASL mechanism towards the controllers.
sasl.mechanism.inter.broker.protocol string GSSAPI built dynamic
  SASL mechanism among brokers.
sasl.oauthbearer.assertion.algorithm string RS256 ES256|RS256 built
  Algorithm that signs the assertion sent to the token provider.
sasl.oauthbearer.assertion.claim.aud string null built
  Audience named in the assertion.
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 built
  Life of the assertion.
sasl.oauthbearer.assertion.claim.iss string null built
  Issuer named in the assertion.
sasl.oauthbearer.assertion.claim.jti.include boolean false built
  Put a unique id into the assertion.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 built
  How far back the assertion's start lies.
sasl.oauthbearer.assertion.claim.sub string null built
  Subject named in the assertion.
sasl.oauthbearer.assertion.file string null built
  File with a ready assertion.
sasl.oauthbearer.assertion.private.key.file string null built
  File with the key that signs the assertion.
sasl.oauthbearer.assertion.private.key.passphrase password null built
  Passphrase of the key that signs the assertion.
sasl.oauthbearer.assertion.template.file string null built
  File with further claims of the assertion.
sasl.oauthbearer.client.credentials.client.id string null built
  Client id shown to the token provider.
sasl.oauthbearer.client.credentials.client.secret password null built
  Client secret shown to the token provider.
sasl.oauthbearer.clock.skew.seconds int 30 built
  Difference of clocks that is allowed when a token is checked.
sasl.oauthbearer.expected.audience list "" built
  Audiences a token may name.
sasl.oauthbearer.expected.issuer string null built
  Issuer a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 built
  How often the token provider's keys are fetched.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 1.. built
  Longest pause before the keys are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 1.. built
  First pause before the keys are fetched again.
sasl.oauthbearer.jwks.endpoint.url string null built
  Where the token provider's keys are: https:, file:, or http: on this machine.
sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever|org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever|org.apache.kafka.common.security.oauthbearer.FileJwtRetriever|org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever built
  How a broker gets its token: client credentials, a token from a file, or a JSON Web Token as the grant (RFC 7523).
sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator n/a:validator
  Class that checks tokens.
sasl.oauthbearer.scope string null built
  Scope that brokers ask of the token provider.
sasl.oauthbearer.scope.claim.name string scope built
  Claim that holds the scope.
sasl.oauthbearer.sub.claim.name string sub built
  Claim that holds the subject.
sasl.oauthbearer.token.endpoint.url string null built
  Where brokers get tokens for each other (client credentials): https:, or the file: of a token that is renewed.
sasl.server.callback.handler.class class null n/a:plug-in
  Class of the callback on the listening side.
sasl.server.max.receive.size int 524288 built
  Largest SASL message that is read.
security.inter.broker.protocol string PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL built
  Security protocol among brokers.
security.providers string null n/a:plug-in
  Classes that provide security algorithms.
ssl.allow.dn.changes boolean false built
  Take a new certificate that has another distinguished name than the one in use.
ssl.allow.san.changes boolean false built
  Take a new certificate that lacks alternative names of the one in use.
ssl.cipher.suites list "" built dynamic
  Cipher suites that may be used.
ssl.client.auth string none required|requested|none built dynamic
  Whether clients must show a certificate.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 built dynamic
  TLS versions that may be used.
ssl.endpoint.identification.algorithm string https built dynamic
  How the name in a broker's certificate is checked.
ssl.engine.factory.class class null dynamic n/a:plug-in
  Class that makes TLS engines.
ssl.key.password password null built dynamic
  Password of the private key.
ssl.keymanager.algorithm string SunX509 dynamic n/a:tls
  Algorithm of the key manager.
ssl.keystore.certificate.chain password null built dynamic
  Certificate chain, as PEM text.
ssl.keystore.key password null built dynamic
  Private key, as PEM text.
ssl.keystore.location string null built dynamic
  File of the key store.
ssl.keystore.password password null built dynamic
  Password of the key store.
ssl.keystore.type string JKS built dynamic
  Format of the key store.
ssl.principal.mapping.rules string DEFAULT built
  Rules that turn a certificate's name into a short name.
ssl.protocol string TLSv1.3 dynamic n/a:tls
  TLS version used to make engines.
ssl.provider string null dynamic n/a:tls
  Name of the security provider for TLS.
ssl.secure.random.implementation string null dynamic n/a:tls
  Random number generator for TLS.
ssl.trustmanager.algorithm string PKIX dynamic n/a:tls
  Algorithm of the trust manager.
ssl.truststore.certificates password null built dynamic
  Trusted certificates, as PEM text.
ssl.truststore.location string null built dynamic
  File of the trust store.
ssl.truststore.password password null built dynamic
  Password of the trust store.
ssl.truststore.type string JKS built dynamic
  Format of the trust store.
super.users string "" built unlisted
  Principals that may do everything, separated by semicolons, as User:admin;User:CN=ops.
"""  # noqa: E501
